#include "apps/demo/demo.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "actors/graph.hpp"
#include "apps/commands/engine_choice.hpp"
#include "apps/demo/report.hpp"
#include "apps/exit_codes.hpp"

#ifndef BATON_DEFAULT_MODEL
#define BATON_DEFAULT_MODEL ""
#endif

namespace baton::apps::demo {
namespace {

constexpr std::uint32_t prompt_slack = 128;  // the prompt has about as many tokens as asked for
constexpr std::uint32_t turn_slack = 32;     // what a question and the template add to a turn
constexpr std::uint32_t least_context = 1024;

}  // namespace

std::string default_model() {
  const char* named = std::getenv("BATON_MODEL");
  return named != nullptr && *named != '\0' ? named : BATON_DEFAULT_MODEL;
}

std::uint32_t tokens_beside_prompt(const scenario_options& how) {
  const auto turns = how.losses + 1;  // one more after a node's return
  return prompt_slack + turns * (how.tokens + turn_slack);
}

result<void> complete(demo_options& how) {
  auto& cluster = how.cluster;
  if (cluster.engine == "llama") {
    if (cluster.model.empty()) cluster.model = default_model();
    if (cluster.model.empty())
      return {errc::invalid_argument, "no model: give --model FILE, or set BATON_MODEL, or use --engine toy"};
    std::error_code failed;
    if (!std::filesystem::is_regular_file(cluster.model, failed))
      return {errc::invalid_argument, "--model: there is no file " + cluster.model};
    cluster.model = std::filesystem::absolute(cluster.model).string();
  }
  if (!actors::is_commit_rule(cluster.commit))
    return {errc::invalid_argument,
            "--commit: expected async, semi-sync, quorum:K or strict, found \"" + cluster.commit + "\""};
  constexpr char standbys = '2';
  if (cluster.commit.starts_with("quorum:") && cluster.commit.back() > standbys)
    return {errc::invalid_argument,
            "--commit: a group of the demo has two standbys, found \"" + cluster.commit + "\""};
  if (how.scenario.kill_after >= how.scenario.tokens)
    return {errc::invalid_argument, "--kill-after: expected less than --tokens, which is " +
                                        std::to_string(how.scenario.tokens) + ", found " +
                                        std::to_string(how.scenario.kill_after)};
  cluster.context_tokens = std::max(least_context, how.scenario.context + tokens_beside_prompt(how.scenario));
  cluster.network = how.scenario.how == loss::cut;
  if (cluster.network && cluster.transport == "ucx-shm")
    return {errc::invalid_argument, "--kill cut: shared memory (--transport ucx-shm) has no network to cut"};
  return {};
}

result<std::shared_ptr<const actors::engines::tokenizer>> make_text(const cluster_options& how) {
  if (how.engine == "toy") return make_tokenizer(actors::toy_settings{});
  actors::llama_settings settings;
  settings.model = how.model;
  return make_tokenizer(settings);
}

result<scenario_result> run_once(const demo_options& how, host::interrupt& signals, host::terminal& screen) {
  const auto begun = host::clock::now();
  const auto text = make_text(how.cluster);
  if (!text) return text.failure();
  auto on = cluster::start(how.cluster, signals, screen);
  if (!on) return on.failure();
  screen.say("  orchestrator, gateway and nodes a, b, c are up, each a process of its own, with " +
             (*text)->model_name() + " (" +
             std::to_string(static_cast<int>(milliseconds_between(begun, host::clock::now()))) + " ms)\n");
  return scenario(**on, **text, how.scenario, screen).run();
}

int refuse(const error& why, host::terminal& screen) {
  screen.progress_done();
  std::fprintf(stderr, "baton: %s\n", why.what.c_str());
  if (why.code == errc::cancelled) return exit_code::interrupted;
  if (why.code == errc::invalid_argument) return exit_code::usage;
  return exit_code::cannot_start;
}

int demo_command(demo_options how) {
  host::terminal screen(how.json);
  if (const auto completed = complete(how); !completed) return refuse(completed.failure(), screen);
  host::interrupt signals;
  const auto outcome = run_once(how, signals, screen);
  if (!outcome) return refuse(outcome.failure(), screen);
  if (how.json)
    std::printf("%s\n", json_of(*outcome, how.scenario, how.cluster).c_str());
  else
    screen.say(table_of(*outcome, how.scenario, screen));
  return outcome->passed() ? exit_code::success : exit_code::failed;
}

}  // namespace baton::apps::demo
