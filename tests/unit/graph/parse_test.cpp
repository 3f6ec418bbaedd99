#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "actors/graph.hpp"

namespace {

using namespace baton::actors;
using namespace std::chrono_literals;

/// A folder with a file that passes for a model.
class folder {
 public:
  folder() : path_(std::filesystem::temp_directory_path() / "baton-graph-test") {
    std::filesystem::create_directories(path_);
    std::ofstream(path_ / "small.gguf") << "GGUF";
  }
  ~folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

constexpr const char* whole = R"(
[deployment]
name = "two-racks"

[defaults]
commit = "quorum:1"
replicas = 2
every_tokens = "auto"
heartbeat_ms = 50
suspect_ms = 200
lease_ms = 2000

[[link]]                      # may stand before the actors
from = "a"
to = ["b", "c"]
transport = "ucx-shm"
every_tokens = 16

[[actor]]
id = "control"
type = "orchestrator"
process = "brain"
listen = "127.0.0.1:7400"
store = "sqlite:state.db"

[[actor]]
id = "edge"
type = "gateway"
process = "brain"
listen = "0.0.0.0:8080"
poison_after = 3
archive = "file:kept"

[[actor]]
id = "a"
type = "node"
engine = { type = "llama", model = "small.gguf", context = 8192, sessions = 6, mode = "throughput", kv_type = "q8_0", threads = 2 }
labels = { rack = "1", zone = "north" }
replica_memory = "2GiB"
control_listen = "10.0.0.1:7001"
data_listen = "shm:a"
network_devices = "eth0"

[[actor]]
id = "b"
type = "node"
engine = { type = "llama", model = "env:BATON_TEST_MODEL" }

[[actor]]
id = "c"
type = "node"
process = "pair"
engine = { type = "llama", model = "small.gguf" }

[[link]]
from = "b"
to = "a"
transport = "ucx-shm"

[[link]]
from = "a"
to = "file:checkpoints"
every_tokens = 128

[[link]]
from = "b"
to = "file:/var/lib/baton"
)";

deployment whole_as_structs(const folder& in) {
  deployment wanted;
  wanted.name = "two-racks";
  wanted.commit = "quorum:1";
  wanted.replicas = 2;
  wanted.every_tokens = 1;
  wanted.heartbeat = 50ms;
  wanted.suspect_after = 200ms;
  wanted.lease = 2000ms;
  wanted.orchestrator = {"control", "brain", "127.0.0.1:7400", "sqlite:" + in.file("state.db")};
  wanted.gateways = {{"edge", "brain", "0.0.0.0:8080", 3, "file:" + in.file("kept")}};
  node_entry a;
  a.id = a.process = "a";
  a.engine = llama_settings{in.file("small.gguf"), 8192, 6, "throughput", "q8_0", 2};
  a.labels = {{"rack", "1"}, {"zone", "north"}};
  a.replica_memory_bytes = std::size_t{2} << 30;
  a.control_listen = "10.0.0.1:7001";
  a.data_listen = "shm:a";
  a.network_devices = "eth0";
  node_entry b;
  b.id = b.process = "b";
  b.engine = llama_settings{.model = in.file("small.gguf")};
  node_entry c = b;
  c.id = "c";
  c.process = "pair";
  wanted.nodes = {a, b, c};
  wanted.links = {{"a", "b", "ucx-shm", 16}, {"a", "c", "ucx-shm", 16}, {"b", "a", "ucx-shm", 1}};
  wanted.archives = {{"a", "file:" + in.file("checkpoints"), 128}, {"b", "file:/var/lib/baton", 64}};
  return wanted;
}

}  // namespace

TEST_CASE("a deployment file is read into structs") {
  const folder in;
  ::setenv("BATON_TEST_MODEL", in.file("small.gguf").c_str(), 1);
  const auto read = parse_deployment(whole, in.file("deployment.toml"));
  INFO((read.ok() ? std::string{} : read.failure().what));
  REQUIRE(read.ok());
  CHECK(*read == whole_as_structs(in));
  CHECK(processes_of(*read) == std::vector<std::string>{"brain", "a", "b", "pair"});
}

TEST_CASE("a toy engine and the defaults") {
  const auto read = parse_deployment(R"(
[[actor]]
id = "o"
type = "orchestrator"
listen = "127.0.0.1:7400"
store = "sqlite::memory:"
[[actor]]
id = "n"
type = "node"
engine = { type = "toy", seed = 7, context = 100, sessions = 2, decode_us = 1500 }
)",
                                     "x.toml");
  REQUIRE(read.ok());
  deployment wanted;
  wanted.orchestrator = {"o", "o", "127.0.0.1:7400", "sqlite::memory:"};
  node_entry node;
  node.id = node.process = "n";
  node.engine = toy_settings{7, 100, 2, 1500};
  wanted.nodes = {node};
  CHECK(*read == wanted);
}

TEST_CASE("the models of other processes may be on other machines") {
  const folder in;
  ::unsetenv("BATON_TEST_MODEL");
  std::string text = whole;
  text.replace(text.find("env:BATON_TEST_MODEL"), 20, "elsewhere.gguf");
  CHECK_FALSE(parse_deployment(text, in.file("deployment.toml")).ok());
  CHECK_FALSE(parse_deployment(text, in.file("deployment.toml"), "b").ok());
  CHECK(parse_deployment(text, in.file("deployment.toml"), "pair").ok());
}

TEST_CASE("what is an address") {
  for (const char* good :
       {"127.0.0.1:0", "localhost:80", "node-1.rack_2:65535", "[::1]:7", "[fe80::1%eth0]:7"})
    CHECK(is_address(good));
  for (const char* bad : {"", ":80", "host", "host:", "host:65536", "host:-1", "host:8x", "::1:80", "[]:80",
                          "[::1:80", "http://host:80", "a b:80"})
    CHECK_FALSE(is_address(bad));
}
