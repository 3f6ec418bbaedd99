#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>

#include "actors/stores/etcd_client.hpp"

namespace baton::test {

inline std::uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0)
    throw std::runtime_error("no free port");
  ::close(fd);
  return ntohs(at.sin_port);
}

/// A real etcd of one member on loopback, with a folder of its own; ended and removed with this object. The
/// program is named by the environment, BATON_ETCD.
class etcd_server {
 public:
  etcd_server() {
    const char* program = std::getenv("BATON_ETCD");
    if (program == nullptr) throw std::runtime_error("BATON_ETCD does not name the program of etcd");
    std::string pattern = (std::filesystem::temp_directory_path() / "baton-etcd-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder for etcd");
    folder_ = pattern;
    url_ = "http://127.0.0.1:" + std::to_string(free_port());
    const std::string peers = "http://127.0.0.1:" + std::to_string(free_port());
    const std::string log = folder_ + "/log";
    pid_ = ::fork();
    if (pid_ == 0) {
      const int out = ::open(log.c_str(), O_CREAT | O_WRONLY, 0600);
      ::dup2(out, 1);
      ::dup2(out, 2);
      ::execl(program, program, "--name", "one", "--data-dir", (folder_ + "/data").c_str(),
              "--listen-client-urls", url_.c_str(), "--advertise-client-urls", url_.c_str(),
              "--listen-peer-urls", peers.c_str(), "--initial-advertise-peer-urls", peers.c_str(),
              "--initial-cluster", ("one=" + peers).c_str(), "--logger=zap", "--log-level=warn", nullptr);
      ::_exit(127);
    }
    await();
  }
  ~etcd_server() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  etcd_server(const etcd_server&) = delete;
  etcd_server& operator=(const etcd_server&) = delete;

  [[nodiscard]] const std::string& url() const noexcept { return url_; }
  void stop() const { ::kill(pid_, SIGSTOP); }
  void go_on() const { ::kill(pid_, SIGCONT); }

 private:
  void await() const {
    using namespace std::chrono_literals;
    actors::stores::etcd_client client{{url_}, 500ms};
    for (int i = 0; i < 400; ++i) {
      if (client.ask("/v3/kv/range", {{"key", actors::stores::etcd_client::to_base64("x")}})) return;
      std::this_thread::sleep_for(25ms);
    }
    throw std::runtime_error("etcd does not start");
  }

  std::string folder_, url_;
  pid_t pid_ = 0;
};

}  // namespace baton::test
