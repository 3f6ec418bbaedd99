#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "actors/graph.hpp"

namespace {

using baton::actors::parse_deployment;

/// A deployment that is right; each case changes one line of it.
const std::vector<std::string> right{
    "[deployment]",                           // 1
    "name = \"small\"",                       // 2
    "[defaults]",                             // 3
    "commit = \"semi-sync\"",                 // 4
    "every_tokens = 1",                       // 5
    "lease_ms = 1000",                        // 6
    "[[actor]]",                              // 7
    "id = \"control\"",                       // 8
    "type = \"orchestrator\"",                // 9
    "listen = \"127.0.0.1:7400\"",            // 10
    "store = \"sqlite:state.db\"",            // 11
    "[[actor]]",                              // 12
    "id = \"edge\"",                          // 13
    "type = \"gateway\"",                     // 14
    "listen = \"127.0.0.1:8080\"",            // 15
    "[[actor]]",                              // 16
    "id = \"a\"",                             // 17
    "type = \"node\"",                        // 18
    "engine = { type = \"toy\" }",            // 19
    "replica_memory = \"256MiB\"",            // 20
    "[[actor]]",                              // 21
    "id = \"b\"",                             // 22
    "type = \"node\"",                        // 23
    "engine = { type = \"toy\", seed = 1 }",  // 24
    "[[link]]",                               // 25
    "from = \"a\"",                           // 26
    "to = \"b\"",                             // 27
    "transport = \"ucx\"",                    // 28
    "[[link]]",                               // 29
    "from = \"b\"",                           // 30
    "to = [\"a\"]",                           // 31
};

std::string text_with(std::size_t line, const std::string& instead) {
  std::string text;
  for (std::size_t i = 0; i < right.size(); ++i)
    text += (i + 1 == line ? instead : right[i]) + "\n";
  return text;
}

struct refusal {
  std::size_t line;  ///< the line that is replaced
  std::string instead;
  std::string message;  ///< all of it
};

const std::string any_name = "a name of at most 64 letters, digits, '-', '_' and '.'";

const std::vector<refusal> refusals{
    // keys
    {2, "nam = \"small\"", "f.toml:2: deployment.nam: unknown key; known here are name"},
    {4, "comit = \"async\"",
     "f.toml:4: defaults.comit: unknown key; known here are commit, every_tokens, heartbeat_ms, lease_ms, "
     "replicas, suspect_ms"},
    {11, "store = \"sqlite:x\"\nport = 1",
     "f.toml:12: actor.control.port: unknown key; known here are id, listen, process, store, type"},
    {19, "engine = { type = \"toy\", threads = 2 }",
     "f.toml:19: actor.a.engine.threads: unknown key; known here are context, decode_us, fault, poison, "
     "seed, "
     "sessions, type"},
    {28, "transprt = \"ucx\"",
     "f.toml:28: link[1].transprt: unknown key; known here are every_tokens, from, to, transport"},
    {1, "[deploiment]",
     "f.toml:1: deploiment: unknown key; known here are actor, defaults, deployment, link"},
    // types
    {2, "name = 3", "f.toml:2: deployment.name: expected a name, found 3"},
    // one line each, whatever the file says
    {2, R"(name = "a\n\u001b[31mb")",
     R"(f.toml:2: deployment.name: expected )" + any_name + R"(, found "a\u000A\u001B[31mb")"},
    {2, R"("na\nme" = "small")", R"(f.toml:2: deployment.na\u000Ame: unknown key; known here are name)"},
    {6, "lease_ms = \"1s\"",
     "f.toml:6: defaults.lease_ms: expected a whole number from 1 to 3600000, found the text \"1s\""},
    {6, "lease_ms = 1.5",
     "f.toml:6: defaults.lease_ms: expected a whole number from 1 to 3600000, found a fraction"},
    {10, "listen = 7400",
     "f.toml:10: actor.control.listen: expected \"host:port\" with a port from 1 to 65535, found 7400"},
    {19, "engine = \"toy\"",
     "f.toml:19: actor.a.engine: expected { type = \"llama\", model = ... } or { type = \"toy\" }, found the "
     "text \"toy\""},
    {20, "labels = { rack = 1 }", "f.toml:20: actor.a.labels.rack: expected a text, found 1"},
    {27, "to = 1",
     "f.toml:27: link[1].to: expected the id of a node, an array of them, or an object store "
     "\"file:PATH\", found 1"},
    // values
    {4, "commit = \"quorum:2\"",
     "f.toml:4: defaults.commit: expected \"quorum:1\" at most, for no node has more links, found "
     "\"quorum:2\""},
    {4, "replicas = 2",
     "f.toml:4: defaults.replicas: expected 1 at most, for no node has more links, found 2"},
    {4, "replicas = 0", "f.toml:4: defaults.replicas: expected a whole number from 1 to 9, found 0"},
    {4, "replicas = 1\ncommit = \"quorum:2\"",
     "f.toml:5: defaults.commit: expected \"quorum:1\" at most, for there are no more replicas, found "
     "\"quorum:2\""},
    {4, "commit = \"quorum:0\"",
     "f.toml:4: defaults.commit: expected \"async\", \"semi-sync\", \"quorum:K\" with K from 1 to 9, or "
     "\"strict\", found "
     "\"quorum:0\""},
    {5, "every_tokens = 0",
     "f.toml:5: defaults.every_tokens: expected \"auto\" or a whole number from 1 to 1048576, found 0"},
    {6, "lease_ms = 99", "f.toml:6: defaults.lease_ms: expected at least suspect_ms, which is 100, found 99"},
    {6, "suspect_ms = 10",
     "f.toml:6: defaults.suspect_ms: expected more than heartbeat_ms, which is 20, found 10"},
    {9, "type = \"archiver\"",
     "f.toml:9: actor.control.type: expected \"orchestrator\", \"gateway\" or \"node\", found \"archiver\""},
    {10, "listen = \"127.0.0.1:0\"",
     "f.toml:10: actor.control.listen: expected \"host:port\" with a port from 1 to 65535, found "
     "\"127.0.0.1:0\""},
    {11, "store = \"etcd:http://x\"",
     "f.toml:11: actor.control.store: expected \"sqlite:PATH\", or \"etcd:http://HOST:PORT\" with all "
     "members, "
     "separated by commas, found \"etcd:http://x\""},
    {11, "store = \"etcd:http://a:2379,b:2379\"",
     "f.toml:11: actor.control.store: expected \"sqlite:PATH\", or \"etcd:http://HOST:PORT\" with all "
     "members, "
     "separated by commas, found \"etcd:http://a:2379,b:2379\""},
    {15, "listen = \"localhost\"",
     "f.toml:15: actor.edge.listen: expected \"host:port\", found \"localhost\""},
    {15, "listen = \"127.0.0.1:7400\"",
     "f.toml:15: actor.edge.listen: expected an address of its own; line 10 listens on \"127.0.0.1:7400\" as "
     "well"},
    {15, "listen = \"127.0.0.1:8080\"\narchive = \"kept\"",
     "f.toml:16: actor.edge.archive: expected \"file:PATH\", found \"kept\""},
    {15, "listen = \"127.0.0.1:8080\"\narchive = \"file:\"",
     "f.toml:16: actor.edge.archive: expected \"file:PATH\", found \"file:\""},
    {15, "listen = \"127.0.0.1:8080\"\narchive = 1",
     "f.toml:16: actor.edge.archive: expected \"file:PATH\", found 1"},
    {17, "id = \"a b\"",
     "f.toml:17: actor[3].id: expected " + any_name +
         ", found \"a b\"\n"
         "f.toml:26: link[1].from: expected the id of a node, found \"a\"\n"
         "f.toml:31: link[2].to: expected the id of a node, found \"a\""},
    {22, "id = \"edge\"",
     "f.toml:22: actor.edge.id: expected an id of its own; line 13 has \"edge\" as well\n"
     "f.toml:27: link[1].to: expected the id of a node, found \"b\"\n"
     "f.toml:30: link[2].from: expected the id of a node, found \"b\""},
    {20, "replica_memory = \"1TB\"",
     "f.toml:20: actor.a.replica_memory: expected a size such as \"256MiB\" or \"2GiB\", found \"1TB\""},
    {19, "engine = { type = \"vllm\" }",
     "f.toml:19: actor.a.engine.type: expected \"llama\" or \"toy\", found \"vllm\""},
    {19, "engine = { type = \"toy\", sessions = 1 }",
     "f.toml:19: actor.a.engine.sessions: expected a whole number from 2 to 4096, found 1"},
    {28, "transport = \"rdma\"",
     "f.toml:28: link[1].transport: expected \"ucx\", \"ucx-shm\" or \"tcp\", found \"rdma\""},
    {20, "data_listen = \"here\"",
     "f.toml:20: actor.a.data_listen: expected \"host:port\", or \"shm:NAME\" for links of \"ucx-shm\", "
     "found \"here\""},
    // what is missing
    {8, "", "f.toml:7: actor[1].id: missing; expected " + any_name},
    {9, "", "f.toml:7: actor.control.type: missing; expected \"orchestrator\", \"gateway\" or \"node\""},
    {10, "", "f.toml:7: actor.control.listen: missing; expected \"host:port\" with a port from 1 to 65535"},
    {11, "",
     "f.toml:7: actor.control.store: missing; expected \"sqlite:PATH\", or \"etcd:http://HOST:PORT\" with "
     "all "
     "members, separated by commas"},
    {19, "",
     "f.toml:16: actor.a.engine: missing; expected { type = \"llama\", model = ... } or { type = \"toy\" }"},
    {26, "", "f.toml:25: link[1].from: missing; expected the id of a node"},
    {27, "",
     "f.toml:25: link[1].to: missing; expected the id of a node, an array of them, or an object "
     "store \"file:PATH\""},
    // the whole
    {14, "type = \"orchestrator\"\nstore = \"sqlite:y\"",
     "f.toml:14: actor.edge.type: expected one orchestrator; \"control\" is one already"},
    {20, "data_listen = \"shm:a\"",
     "f.toml:20: actor.a.data_listen: expected \"host:port\" for links of \"ucx\", found \"shm:a\""},
    {26, "from = \"edge\"", "f.toml:26: link[1].from: expected the id of a node, found \"edge\""},
    {27, "to = [\"b\", \"nobody\"]", "f.toml:27: link[1].to: expected the id of a node, found \"nobody\""},
    {31, "to = [\"a\"]\n[[link]]\nfrom = \"a\"\nto = \"file:x\"\ntransport = \"ucx\"",
     "f.toml:35: link[3].transport: unknown key; known here are every_tokens, from, to"},
    {31, "to = [\"a\"]\n[[link]]\nfrom = \"a\"\nto = \"file:x\"\nevery_tokens = 1025",
     "f.toml:35: link[3].every_tokens: expected a whole number from 1 to 1024, found 1025"},
    {31, "to = [\"a\"]\n[[link]]\nfrom = \"a\"\nto = \"file:x\"\n[[link]]\nfrom = \"a\"\nto = \"file:y\"",
     "f.toml:37: link[4].to: expected one object store, \"a\" has one already"},
    {27, "to = \"file:\"", "f.toml:27: link[1].to: expected the id of a node, found \"file:\""},
    {27, "to = \"a\"",
     "f.toml:27: link[1].to: expected another node than \"a\": a node cannot be its own standby"},
    {27, "to = []", "f.toml:27: link[1].to: expected at least one node, found none"},
    {27, "to = [\"b\", \"b\"]",
     "f.toml:27: link[1].to: expected a link of its own; line 27 leads from \"a\" to \"b\" as well"},
    {31, "to = [\"a\"]\ntransport = \"ucx-shm\"",
     "f.toml:32: link[2].transport: expected \"ucx\" as on line 27: links that share a node share its "
     "transport, found "
     "\"ucx-shm\""},
    {28,
     "[[actor]]\nid = \"c\"\ntype = \"node\"\nengine = { type = \"toy\" }\n[[link]]\nfrom = \"a\"\nto = "
     "\"c\"\nevery_tokens = 4",
     "f.toml:35: link[2].every_tokens: expected 1 as on line 27: links from one node share its interval, "
     "found 4"},
    {19, "engine = { type = \"llama\" }",
     "f.toml:19: actor.a.engine.model: missing; expected the path of a model file, or \"env:NAME\" of a "
     "variable that "
     "holds it\n"
     "f.toml:22: actor.b.engine: expected the type of \"a\"'s: a deployment has one model"},
    // not TOML
    {2, "name = small",
     "f.toml:2: not TOML, at column 8: Error while parsing value: could not determine value type"},
};

}  // namespace

TEST_CASE("the deployment that the refusals are made from is right") {
  CHECK(parse_deployment(text_with(0, ""), "f.toml").ok());
}

TEST_CASE("what is wrong is named with file, line and key") {
  for (const auto& one : refusals) {
    const auto read = parse_deployment(text_with(one.line, one.instead), "f.toml");
    INFO("line " << one.line << " replaced by: " << one.instead);
    REQUIRE_FALSE(read.ok());
    CHECK(read.code() == baton::errc::invalid_argument);
    CHECK(read.failure().what == one.message);
  }
}

TEST_CASE("a model that is not there, and a variable that is not set") {
  const auto with_model = [](const std::string& model) {
    std::string text = text_with(19, "engine = { type = \"llama\", model = \"" + model + "\" }");
    const std::string other = "engine = { type = \"toy\", seed = 1 }";
    return text.replace(text.find(other), other.size(),
                        "engine = { type = \"llama\", model = \"" + model + "\" }");
  };
  CHECK(parse_deployment(with_model("none.gguf"), "f.toml").failure().what ==
        "f.toml:19: actor.a.engine.model: expected a model file that can be read, found \"none.gguf\"\n"
        "f.toml:24: actor.b.engine.model: expected a model file that can be read, found \"none.gguf\"");
  CHECK(parse_deployment(with_model("env:BATON_NO_SUCH"), "f.toml", "a").failure().what ==
        "f.toml:19: actor.a.engine.model: expected the name of an environment variable that is set, found "
        "\"env:BATON_NO_SUCH\"");
  ::setenv("BATON_NO_FILE", "/none.gguf", 1);
  CHECK(parse_deployment(with_model("env:BATON_NO_FILE"), "f.toml", "a").failure().what ==
        "f.toml:19: actor.a.engine.model: expected a model file that can be read at \"/none.gguf\", found "
        "\"env:BATON_NO_FILE\"");
}

TEST_CASE("a file without parts, and a process that it does not have") {
  CHECK(parse_deployment("", "f.toml").failure().what ==
        "f.toml:1: actor: expected one of type \"orchestrator\", found none\n"
        "f.toml:1: actor: expected at least one of type \"node\", found none");
  CHECK(parse_deployment(text_with(0, ""), "f.toml", "z").failure().what ==
        "f.toml:31: process: expected \"control\", \"a\", \"b\" or \"edge\", found \"z\"");
}

TEST_CASE("a node without a name is refused, whatever its engine") {
  const auto read = parse_deployment(R"(
[[actor]]
id = "o"
type = "orchestrator"
listen = "h:1"
store = "sqlite:s"
[[actor]]
id = "a"
type = "node"
engine = { type = "toy" }
[[actor]]
type = "node"
engine = { type = "llama", model = "m" }
)",
                                     "f.toml", "a");
  REQUIRE_FALSE(read.ok());
  CHECK(read.failure().what.find("f.toml:11: actor[3].id: missing") == 0);
}
