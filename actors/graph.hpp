#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schemas/errors.hpp"
#include "schemas/limits.hpp"

/// A deployment as a graph: actors, the processes they live in, and the links along which KV rows are
/// replicated. Plain values: build them by hand, or read them from TOML (docs/operating.md has every key).
namespace baton::actors {

/// A model in a GGUF file, run by llama.cpp.
struct llama_settings {
  std::string model;  ///< path
  std::uint32_t context_tokens = 4096;
  std::uint32_t sessions = 8;   ///< places: a third for own sessions, the rest for replicas
  std::string mode = "exact";   ///< exact | throughput
  std::string kv_type = "f16";  ///< f32 | f16 | q8_0 | q4_0
  std::uint32_t threads = 1;    ///< must be equal on all nodes

  friend bool operator==(const llama_settings&, const llama_settings&) = default;
};

/// The deterministic stand-in for a model.
struct toy_settings {
  std::uint64_t seed = 1;  ///< another seed is another model
  std::uint32_t context_tokens = 4096;
  std::uint32_t sessions = 8;
  std::uint32_t decode_us = 0;  ///< time per evaluated token
  std::int32_t poison = -1;     ///< to evaluate this token ends the process, as a crash of an engine may
  std::int32_t fault = -1;      ///< to evaluate this one is an error of the engine

  friend bool operator==(const toy_settings&, const toy_settings&) = default;
};

using engine_settings = std::variant<llama_settings, toy_settings>;

struct orchestrator_entry {
  std::string id;
  std::string process;
  std::string listen;  ///< control plane; all others find it there, so the port is never 0
  std::string store;   ///< "sqlite:PATH", "sqlite::memory:" or "etcd:http://HOST:PORT,…"

  friend bool operator==(const orchestrator_entry&, const orchestrator_entry&) = default;
};

struct gateway_entry {
  std::string id;
  std::string process;
  std::string listen;              ///< HTTP
  std::uint32_t poison_after = 2;  ///< nodes that may die of one request; 0: any number
  std::string archive;             ///< "file:PATH", where conversations are kept; empty: nowhere

  friend bool operator==(const gateway_entry&, const gateway_entry&) = default;
};

struct node_entry {
  std::string id;
  std::string process;
  engine_settings engine;
  std::map<std::string, std::string> labels;
  std::size_t replica_memory_bytes = 256U << 20;
  std::string control_listen = "127.0.0.1:0";
  std::string data_listen;  ///< "host:port", or "shm:NAME" with links of "ucx-shm"; empty: whatever is free
  std::string network_devices;

  friend bool operator==(const node_entry&, const node_entry&) = default;
};

/// A way from a node to one standby.
struct link_entry {
  std::string from;
  std::string to;
  std::string transport = "ucx";  ///< ucx | ucx-shm | tcp
  std::uint32_t every_tokens = 1;

  friend bool operator==(const link_entry&, const link_entry&) = default;
};

/// A way from a node to an object store: all its sessions are sent there, and restored from there.
struct archive_entry {
  std::string from;
  std::string to;                   ///< "file:PATH"
  std::uint32_t every_tokens = 64;  ///< rows of one object

  friend bool operator==(const archive_entry&, const archive_entry&) = default;
};

struct deployment {
  std::string name = "baton";
  std::string commit = "semi-sync";  ///< async | semi-sync | quorum:K | strict
  std::uint32_t every_tokens = 1;    ///< of links that do not say
  std::uint32_t replicas = 0;        ///< standbys of each group, of those that links lead to; 0: all
  std::chrono::milliseconds heartbeat = limits::heartbeat;
  std::chrono::milliseconds suspect_after = limits::suspect_after;
  std::chrono::milliseconds lease = limits::lease;

  orchestrator_entry orchestrator;
  std::vector<gateway_entry> gateways;
  std::vector<node_entry> nodes;
  std::vector<link_entry> links;
  std::vector<archive_entry> archives;  ///< one of each node at most

  friend bool operator==(const deployment&, const deployment&) = default;
};

/// Reads a deployment and checks it as a whole. `invalid_argument` with one line "FILE:LINE: KEY: what was
/// expected" for each thing that is wrong, in the order of the file. Relative paths in it are taken from the
/// folder of `file_name`. Model files must be readable: those of `process`, or of all processes if that is
/// empty.
result<deployment> parse_deployment(std::string_view text, const std::string& file_name,
                                    std::string_view process = {});

/// The names of the operating system processes, each once: the orchestrator's, then those of nodes, then of
/// gateways.
std::vector<std::string> processes_of(const deployment& graph);

/// Whether `text` is an address, "host:port" or "[v6]:port".
bool is_address(std::string_view text);

/// Whether `text` names an etcd cluster, "etcd:http://host:port" with more members behind commas.
bool is_etcd_store(std::string_view text);

/// Whether `text` names an object store, "file:PATH".
bool is_object_store(std::string_view text);

/// Whether `text` is a commit rule: async, semi-sync, quorum:K with K from 1 to 9, or strict.
bool is_commit_rule(std::string_view text);

}  // namespace baton::actors
