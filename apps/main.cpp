#include <CLI/CLI.hpp>
#include <exception>
#include <map>
#include <string>

#include "apps/bench/bench.hpp"
#include "apps/commands/planned_moves.hpp"
#include "apps/commands/run.hpp"
#include "apps/commands/status.hpp"
#include "apps/demo/demo.hpp"
#include "apps/exit_codes.hpp"
#include "apps/sim/command.hpp"

namespace baton::apps {
namespace {

constexpr const char* footer = R"(Exit codes:
  0    as asked (demo: and the answer with the loss equals the one without)
  1    it ran and the outcome is bad, or it broke on the way
  2    arguments or a deployment file that cannot be
  3    a part could not start, or nobody answers
  130  ended by the user (run: 0)

Each command has its own help: baton demo --help)";

const std::map<std::string, demo::loss> losses{{"kill", demo::loss::killed},
                                               {"stop", demo::loss::frozen},
                                               {"cut", demo::loss::cut},
                                               {"term", demo::loss::ended}};

/// A `--kill` as CLI11 reads an enumeration: its number; returns what is wrong.
std::string number_of_loss(std::string& name) {
  const auto found = losses.find(CLI::detail::to_lower(name));
  if (found == losses.end()) return "expected kill, stop, cut or term, found " + name;
  name = std::to_string(static_cast<int>(found->second));
  return {};
}

/// What each command was given, and the one that was chosen.
struct arguments {
  run_options run;
  status_options status;
  int status_timeout_ms = 2000;
  drain_options drain;
  int drain_timeout_ms = 30'000;
  move_options move;
  int move_timeout_ms = 30'000;
  demo::demo_options demo;
  bench::bench_options bench;
  std::string bench_what;
  sim::sim_options sim;
};

CLI::App* add_run(CLI::App& app, arguments& into) {
  auto* command = app.add_subcommand("run", "Run a deployment, or one process of it, until SIGTERM");
  command
      ->add_option("FILE", into.run.file,
                   "The deployment, in TOML (see apps/deployments and docs/operating.md)")
      ->required();
  command->add_option(
      "--process", into.run.process,
      "Run the actors of this process only, in this very process. Without it, each process of the "
      "file is started as a child of this one and ends with it");
  command->add_flag("--json", into.run.json, "Say what is ready as JSON, an object per line");
  command->add_option("--log-level", into.run.log_level, "What is logged to standard error")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}))
      ->capture_default_str();
  return command;
}

void add_orchestrator(CLI::App& command, std::string& address) {
  command.add_option("--orchestrator", address, "Its address")
      ->envname("BATON_ORCHESTRATOR")
      ->capture_default_str();
}

CLI::App* add_status(CLI::App& app, arguments& into) {
  auto* command = app.add_subcommand("status", "Show the nodes, groups and links of a running deployment");
  add_orchestrator(*command, into.status.orchestrator);
  command->add_option("--timeout-ms", into.status_timeout_ms, "How long to wait for its answer")
      ->check(CLI::Range(1, 600'000))
      ->capture_default_str();
  command->add_flag("--json", into.status.json, "As JSON");
  return command;
}

/// Of a command that waits for a planned move.
void add_patience(CLI::App& command, int& timeout_ms, const char* what) {
  command.add_option("--timeout-ms", timeout_ms, what)
      ->check(CLI::Range(1, 3'600'000))
      ->capture_default_str();
}

CLI::App* add_drain(CLI::App& app, arguments& into) {
  auto* command = app.add_subcommand(
      "drain", "Move all that a node serves to its standbys, without a pause in streams, and keep it so");
  command->add_option("NODE", into.drain.node, "Its id in the deployment")->required();
  add_orchestrator(*command, into.drain.orchestrator);
  add_patience(*command, into.drain_timeout_ms, "How long to wait until it owns nothing");
  command->add_flag("--undo", into.drain.undo, "It may serve again");
  return command;
}

CLI::App* add_move(CLI::App& app, arguments& into) {
  auto* command = app.add_subcommand(
      "move", "Move a session, with its group, to another node, without a pause in its stream");
  command->add_option("SESSION", into.move.session, "The name that its client gave it")->required();
  command->add_option("NODE", into.move.node, "The node's id in the deployment")->required();
  add_orchestrator(*command, into.move.orchestrator);
  add_patience(*command, into.move_timeout_ms, "How long to wait until it is there");
  return command;
}

void add_cluster_options(CLI::App& command, demo::cluster_options& cluster) {
  command.add_option("--engine", cluster.engine, "A real model, or the deterministic stand-in")
      ->check(CLI::IsMember({"llama", "toy"}))
      ->capture_default_str();
  command.add_option("--model", cluster.model,
                     "A GGUF file; by default $BATON_MODEL, or the one of this build");
  command.add_option("--every", cluster.every_tokens, "Replicate KV after this many tokens at the latest")
      ->check(CLI::Range(1U, 65536U))
      ->capture_default_str();
  command
      .add_option("--commit", cluster.commit,
                  "When a token is shown to the client: async, semi-sync, quorum:K, strict")
      ->capture_default_str();
  command.add_option("--transport", cluster.transport, "How KV travels")
      ->check(CLI::IsMember({"ucx", "ucx-shm", "tcp"}))
      ->capture_default_str();
  command.add_option("--decode-us", cluster.decode_us, "Toy engine: time per token, in microseconds")
      ->check(CLI::Range(0U, 10'000'000U))
      ->capture_default_str();
}

CLI::App* add_demo(CLI::App& app, arguments& into) {
  auto* command = app.add_subcommand(
      "demo",
      "Start a cluster on this machine, stream an answer, lose the node that serves it, and watch it go on");
  auto& scenario = into.demo.scenario;
  command
      ->add_option(
          "--kill", scenario.how,
          "How the node is lost: kill (SIGKILL), stop (SIGSTOP), cut (its network link; needs root), "
          "term (SIGTERM: it hands over first)")
      ->transform(CLI::Validator(number_of_loss, "kill|stop|cut|term"))
      ->default_str("kill");
  command->add_option("--tokens", scenario.tokens, "Tokens of the answer")
      ->check(CLI::Range(2U, 65536U))
      ->capture_default_str();
  command->add_option("--kill-after", scenario.kill_after,
                      "Lose the node after this many tokens (default: half)");
  command
      ->add_option("--losses", scenario.losses,
                   "Lose a node this many times, in turns that follow each other")
      ->check(CLI::Range(1U, 1000U))
      ->capture_default_str();
  command->add_option("--context", scenario.context, "Pad the chat to about this many tokens")
      ->check(CLI::Range(1U, 1U << 20))
      ->capture_default_str();
  command->add_option("--temperature", scenario.temperature, "0 always takes the likeliest token")
      ->check(CLI::Range(0.0, 2.0))
      ->capture_default_str();
  command->add_option("--seed", scenario.seed, "Of the sampling")->capture_default_str();
  add_cluster_options(*command, into.demo.cluster);
  command->add_flag("--json", into.demo.json, "Print one JSON object instead of the stream and the table");
  return command;
}

CLI::App* add_bench(CLI::App& app, arguments& into) {
  auto* command = app.add_subcommand("bench", "Measure, each figure beside its peer or its limit");
  command
      ->add_option("WHAT", into.bench_what,
                   "gap: kill to next token at several contexts, against prefilling again; "
                   "overhead: decode speed with replication and without")
      ->required()
      ->check(CLI::IsMember({"gap", "overhead"}));
  command->add_flag("--full", into.bench.full,
                    "gap: a context of 8192 tokens as well (a quarter of an hour)");
  command
      ->add_option("--losses", into.bench.losses,
                   "gap: nodes lost one after the other, of which the middle gap counts")
      ->check(CLI::Range(1U, 100U))
      ->capture_default_str();
  command->add_option("--rounds", into.bench.rounds, "overhead: pairs of runs")
      ->check(CLI::Range(1U, 1000U))
      ->capture_default_str();
  command->add_option("--tokens", into.bench.tokens, "Tokens of each answer")
      ->check(CLI::Range(8U, 4096U))
      ->capture_default_str();
  add_cluster_options(*command, into.bench.cluster);
  command->add_flag("--json", into.bench.json, "Print one JSON object");
  return command;
}

CLI::App* add_sim(CLI::App& app, arguments& into) {
  auto* command = app.add_subcommand(
      "sim", "Simulate clusters under seeded faults, each in one thread, and check every invariant");
  command->add_option("--seed", into.sim.seed, "Only this one, e.g. to repeat a violation");
  command->add_flag("--trace", into.sim.trace, "Print what happens, event for event");
  command->add_option("--first", into.sim.first, "The first of --seeds")->capture_default_str();
  command->add_option("--seeds", into.sim.seeds, "How many")
      ->check(CLI::Range(1U, 1U << 30))
      ->capture_default_str();
  command->add_option("--jobs", into.sim.jobs, "So many at a time, each in a thread of its own")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--faults", into.sim.faults, "Go on until so many faults have been made");
  command->add_option("--without", into.sim.without,
                      "Leave a rule out, by name (docs/protocol.md); succeeds only if that is noticed");
  command->add_flag("--json", into.sim.json, "Print one JSON object");
  auto* script = command->add_option("--script", into.sim.script,
                                     "Run the scenario in this file, and compare with the trace in it");
  command->add_flag("--rewrite", into.sim.rewrite, "Write the trace that it has into the file")
      ->needs(script);
  return command;
}

int run(int argc, char** argv) {
  CLI::App app{"Baton keeps a conversation with a language model alive when the machine that serves it dies.",
               "baton"};
  app.set_version_flag("--version", "baton " BATON_VERSION);
  app.require_subcommand(1);
  app.footer(footer);
  arguments given;
  const auto* run_it = add_run(app, given);
  const auto* show_status = add_status(app, given);
  const auto* drain_it = add_drain(app, given);
  const auto* move_it = add_move(app, given);
  const auto* show_demo = add_demo(app, given);
  const auto* measure = add_bench(app, given);
  const auto* simulate = add_sim(app, given);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError& failure) {
    const std::string command = argc < 2 ? "" : argv[1];
    const auto known = app.get_subcommands([&](const CLI::App* it) { return it->get_name() == command; });
    if (command.empty() || command.starts_with('-') || !known.empty())
      app.exit(failure);
    else
      std::fprintf(stderr, "baton: no command is called \"%s\"; baton --help lists them\n", command.c_str());
    return exit_code::usage;
  } catch (const CLI::ParseError& failure) {
    return app.exit(failure) == 0 ? exit_code::success : exit_code::usage;
  }
  if (run_it->parsed()) return run_command(given.run);
  given.status.timeout = std::chrono::milliseconds(given.status_timeout_ms);
  if (show_status->parsed()) return status_command(given.status);
  given.drain.timeout = std::chrono::milliseconds(given.drain_timeout_ms);
  if (drain_it->parsed()) return drain_command(given.drain);
  given.move.timeout = std::chrono::milliseconds(given.move_timeout_ms);
  if (move_it->parsed()) return move_command(given.move);
  if (show_demo->parsed()) return demo::demo_command(given.demo);
  if (measure->parsed())
    return given.bench_what == "gap" ? bench::gap_command(given.bench) : bench::overhead_command(given.bench);
  if (simulate->parsed()) return sim::sim_command(given.sim);
  return exit_code::usage;
}

}  // namespace
}  // namespace baton::apps

int main(int argc, char** argv) {
  try {
    return baton::apps::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "baton: %s\n", failure.what());
    return baton::apps::exit_code::failed;
  }
}
