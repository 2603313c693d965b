# Sourced by apps/quickstart, tests/run and the Dockerfile: the packages, how they are installed,
# and how the project is built. Names of Debian 12 and 13 and Ubuntu 24.04.
packages=(g++ cmake ninja-build
  libdnnl-dev libhwy-dev libgloo-dev libasio-dev libfmt-dev nlohmann-json3-dev libcli11-dev
  libtomlplusplus-dev libjpeg-dev libpng-dev zlib1g-dev libxxhash-dev libpcre2-dev libutf8proc-dev
  libzstd-dev libssl-dev libcpp-httplib-dev)
test_packages=(libgtest-dev libgmock-dev pkg-config zstd python3-numpy)
# Debian 13 lacks it; there the test of the sources' format is skipped.
grep -qs '^VERSION_CODENAME=trixie' /etc/os-release || test_packages+=(clang-format-14)

say() { printf '\n== %s\n' "$*"; }

# install_packages PACKAGE…: installs the missing ones with apt; does nothing if all are installed.
install_packages() {
  local missing=() package
  for package in "$@"; do
    [[ "$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null)" == "install ok installed" ]] ||
      missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  say "installing ${missing[*]}"
  local as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "these packages are missing, and there is no sudo; install them: ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  local install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get install -y --no-install-recommends "${missing[@]}")
  # The package lists may be missing or old: fetch them only if the first try fails.
  "${install[@]}" >/dev/null 2>&1 || { "${as_root[@]}" apt-get update && "${install[@]}"; }
}

# build_project FOLDER TARGET… -- CMAKE-ARGUMENT…
build_project() {
  local folder=$1 targets=()
  shift
  while (($#)) && [[ $1 != -- ]]; do targets+=("$1"); shift; done
  shift || true
  say "building in $folder/"
  cmake -S . -B "$folder" -G Ninja "$@" | { grep '^-- gossamer' || true; }
  ninja -C "$folder" "${targets[@]}"
}

# Every machine has these of its own: the libraries of glibc, of the GPU's driver and of CUDA.
own_libraries='^(ld-linux|libc\.so|libm\.so|libdl\.so|librt\.so|libpthread\.so|libresolv\.so|'
own_libraries+='libutil\.so|linux-vdso|libcuda|libcudart|libcublas|libcudnn|libnccl|libnvrtc|'
own_libraries+='libnvJitLink)'

# copy_libraries FOLDER PROGRAM…: all that the dynamic linker would load but own_libraries.
copy_libraries() {
  local folder=$1 name path
  shift
  mkdir -p "$folder"
  ldd "$@" |
    awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 } $3 == "not" { print $1, "missing" }' | sort -u |
    while read -r name path; do
      [[ $name =~ $own_libraries ]] && continue
      [[ $path == missing ]] && { echo "$name is not found on this machine" >&2; return 1; }
      cp -L "$path" "$folder/$name"
      strip --strip-unneeded "$folder/$name" 2>/dev/null || true
    done
}

# cross_root FOLDER: FOLDER/sysroot holds all that a build for 64-bit ARM needs, from Debian's
# archive (190 MB), for apps/aarch64.cmake, and in shlibs which package each library is of. The
# packages of this machine are left alone.
cross_root() {
  local folder=$1 package link
  [[ ! -e $folder/sysroot ]] || return 0
  rm -rf "$folder/apt" "$folder/sysroot.part"
  mkdir -p "$folder"/apt/{state,lists/partial,cache/archives/partial} "$folder/sysroot.part"
  touch "$folder/apt/status"
  local apt=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64
    -o APT::Sandbox::User= -o Debug::NoLocking=1 -o Dir::State="$folder/apt/state"
    -o Dir::State::lists="$folder/apt/lists" -o Dir::State::status="$folder/apt/status"
    -o Dir::Cache="$folder/apt/cache")
  local libraries=(libc6-dev "libstdc++-$(aarch64-linux-gnu-gcc -dumpversion)-dev")
  for package in "${packages[@]}" "${test_packages[@]}"; do
    # oneDNN is not used on ARM
    [[ $package == *-dev && $package != libdnnl-dev ]] && libraries+=("$package")
  done
  "${apt[@]}" update &&
    "${apt[@]}" install -y --no-install-recommends --download-only "${libraries[@]}" || return 1
  for package in "$folder"/apt/cache/archives/*.deb; do
    dpkg -x "$package" "$folder/sysroot.part"
    dpkg -I "$package" shlibs 2>/dev/null >> "$folder/sysroot.part/shlibs" || true
  done
  # Where all of /lib lies in /usr/lib (Debian 13), the link between them is no package's.
  [[ -e $folder/sysroot.part/lib ]] || ln -s usr/lib "$folder/sysroot.part/lib"
  # Links that begin with / would lead out of the folder.
  find "$folder/sysroot.part" -type l -lname '/*' | while read -r link; do
    ln -sfn "$(realpath -m --relative-to="${link%/*}" "$folder/sysroot.part$(readlink "$link")")" \
      "$link"
  done
  rm -rf "$folder/apt"
  mv "$folder/sysroot.part" "$folder/sysroot"
}
