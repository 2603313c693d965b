// `gossamer watch`: report.html of runs that go on, at an address of this machine only.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/report/html.h"
#include "gossamer/apps/report/live.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"
#include "gossamer/dist/net/token.h"

#ifdef GOSSAMER_HAS_HTTP
#include <httplib.h>
#endif

namespace gossamer::apps {

#ifdef GOSSAMER_HAS_HTTP

namespace {

constexpr const char* kHere = "127.0.0.1";

// What is shown is fetched again every two seconds; what a reader has opened stays open.
constexpr const char* kScript = R"(<p class="soft" id="state" role="status"></p>
<div id="runs">Reading ...</div><script>
"use strict";
const runs = document.getElementById("runs"), state = document.getElementById("state");
let shown = "";
async function read() {
  let says = "";
  try {
    const answer = await fetch("body", {cache: "no-store"});
    if (!answer.ok) throw new Error(answer.status);
    const text = await answer.text();
    if (text !== shown) {
      const open = new Set();
      for (const [i, each] of runs.querySelectorAll("details").entries())
        if (each.open) open.add(i);
      runs.innerHTML = shown = text;
      for (const [i, each] of runs.querySelectorAll("details").entries()) each.open = open.has(i);
    }
  } catch (error) {
    says = "gossamer watch no longer answers; this is what it showed last.";
  }
  if (state.textContent !== says) state.textContent = says;
  setTimeout(read, 2000);
}
read();
</script>)";

// A page elsewhere whose name leads here would send its own name.
bool asks_this_machine(const httplib::Request& request) {
  const std::string host = request.get_header_value("Host");
  const std::string name = host.substr(0, host.rfind(':'));
  return name == kHere || name == "localhost";
}

void answer(httplib::Response& response, const std::string& text, const char* type) {
  response.set_header("Cache-Control", "no-store");
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("X-Frame-Options", "DENY");
  response.set_content(text, type);
}

}  // namespace

int watch(const WatchCommand& command) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; };
  check<ConfigError>(std::ranges::all_of(command.path, fits), "--path ", command.path,
                     ": use letters, digits, - and _");
  LiveRuns runs({command.runs.begin(), command.runs.end()});
  const std::string path = "/" + (command.path.empty() ? dist::new_token() : command.path) + "/";
  httplib::Server server;
  // The library would share a port that is taken.
  server.set_socket_options([](socket_t each) {
    const int yes = 1;
    setsockopt(each, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_pre_routing_handler([](const auto& request, auto& response) {
    if (asks_this_machine(request)) return httplib::Server::HandlerResponse::Unhandled;
    response.status = 403;
    return httplib::Server::HandlerResponse::Handled;
  });
  const auto serve = [&](const char* name, const char* type, auto text) {
    server.Get(path + name, [=](const auto&, auto& response) { answer(response, text(), type); });
  };
  const std::string title = (command.runs.size() > 1 ? "Runs " : "Run ") + runs.names();
  serve("", "text/html; charset=utf-8",
        [title] { return html_page(title, kScript, PageMay::fetch); });
  serve("body", "text/html; charset=utf-8", [&runs] { return runs.body(); });
  serve("metrics", "text/plain; version=0.0.4; charset=utf-8", [&runs] { return runs.metrics(); });
  const int port = command.port > 0 ? (server.bind_to_port(kHere, command.port) ? command.port : -1)
                                    : server.bind_to_any_port(kHere);
  check<ConfigError>(port > 0, "--port ", command.port, ": it is taken; take another, or none");
  const std::string address = fmt::format("http://{}:{}{}", kHere, port, path);
  if (command.json)
    print(fmt::format("{}\n",
                      JsonObject().add("page", address).add("metrics", address + "metrics").str()));
  else
    print(
        fmt::format("{0}\n  from another machine: ssh -L {1}:{2}:{1} THIS-MACHINE\n"
                    "  Prometheus: {0}metrics\n",
                    address, port, kHere));
  std::fflush(stdout);
  check(server.listen_after_bind(), "watch: the port can't be listened on any more");
  return 0;
}

#else

int watch(const WatchCommand&) {
  fail<ConfigError>(
      "watch: this program was built without cpp-httplib (Debian: libcpp-httplib-dev); "
      "`gossamer report RUN` writes the same page once");
}

#endif

}  // namespace gossamer::apps
