#include <catch2/catch.hpp>

#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "actors/archive/objects.hpp"
#include "tests/scenarios/cluster.hpp"

/// Conversations in an object store.
using namespace baton;
using namespace baton::tests;

namespace {

/// A directory of its own, gone with it.
class store_folder {
 public:
  store_folder()
      : path_(std::filesystem::temp_directory_path() /
              ("baton-archive-" + std::to_string(std::random_device{}()))) {}
  ~store_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  store_folder(const store_folder&) = delete;
  store_folder& operator=(const store_folder&) = delete;

  [[nodiscard]] std::string where() const { return "file:" + path_.string(); }

  /// Waits until there is an object under the key.
  [[nodiscard]] bool await(const std::string& key) const {
    const auto store = cluster::must(transports::stores::open_object_store(where()));
    for (int tries = 0; tries < 2000; ++tries, std::this_thread::sleep_for(10ms))
      if (store->get(key, 1U << 20)) return true;
    return false;
  }

 private:
  std::filesystem::path path_;
};

bool has(const std::string& status, const std::string& figure) {
  return status.find(figure) != std::string::npos;
}

}  // namespace

TEST_CASE("a gateway that has begun anew goes on with a conversation of its archive") {
  const store_folder store;
  cluster_options how;
  how.archive = store.where();
  cluster it{how};
  const auto turn = [&](const actors::completion_request& request) {
    const auto heard = it.submit(request);
    REQUIRE(heard->wait_end());
    REQUIRE(heard->finished());
    return heard;
  };
  const auto first = ask("a question", 10, "s");
  const auto second = [&](const std::string& session, const std::string& answer) {
    auto request = first;
    request.session = session;
    request.messages.push_back({"assistant", answer});
    request.messages.push_back({"user", "another one"});
    return turn(request);
  };
  auto undisturbed = first;
  undisturbed.session = "reference";
  const auto reference = second("reference", turn(undisturbed)->text());
  const std::string answer = turn(first)->text();
  REQUIRE(store.await(actors::archive::conversation_key("s")));

  it.restart_gateway();
  // The toy's answers are not text that its tokens could be made from again: these are the very same.
  CHECK(second("s", answer)->text() == reference->text());
  it.await([](const std::string& status) { return has(status, "\"recalled\":1"); });
  it.await([](const std::string& status) { return has(status, "\"kept\":1"); });
  CHECK(has(it.status(), "\"keeps_failed\":0"));
  CHECK(has(it.service().metrics_text(), "baton_gateway_conversations_recalled_total 1"));
  CHECK(has(it.service().metrics_text(), "baton_gateway_conversations_kept_total 1"));
}

TEST_CASE("an archive that is no object store is an error of its gateway") {
  const auto edge = cluster::must(actors::runtime::start());
  actors::gateway_options how;
  how.orchestrator = "127.0.0.1:1";
  how.archive = "file:/dev/null/here";
  const auto made = edge->add_gateway(how, std::make_shared<actors::engines::toy_tokenizer>());
  REQUIRE_FALSE(made.ok());
  CHECK(made.code() == errc::io_failed);
}
