# The program and all it needs, for x86-64 CPUs with AVX2:
#   docker build -t gossamer .
# With support for NVIDIA GPUs:
#   docker build -t gossamer --build-arg BUILD=nvidia/cuda:12.8.1-cudnn-devel-ubuntu24.04 \
#     --build-arg RUN=nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04 --build-arg CUDA=ON .
# Then, with --gpus all for GPUs:
#   docker run --rm -it -v "$PWD":/data gossamer train data.train=photos
ARG BUILD=debian:12
ARG RUN=debian:12-slim

FROM $BUILD AS build
ARG CUDA=OFF
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
WORKDIR /src
COPY . .
RUN . apps/setup.sh; \
    install_packages "${packages[@]}"; \
    build_project build gossamer -- -DGOSSAMER_TESTS=OFF -DGOSSAMER_CUDA=$CUDA \
      -DCMAKE_INSTALL_RPATH='$ORIGIN/../lib/gossamer' \
      -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags; \
    cmake --install build --strip --prefix /opt/gossamer; \
    copy_libraries /opt/gossamer/lib/gossamer build/gossamer

FROM $RUN
COPY --from=build /opt/gossamer/bin /usr/local/bin
COPY --from=build /opt/gossamer/lib/gossamer /usr/local/lib/gossamer
COPY --from=build /opt/gossamer/share /usr/local/share
RUN gossamer --version
WORKDIR /data
ENTRYPOINT ["gossamer"]
