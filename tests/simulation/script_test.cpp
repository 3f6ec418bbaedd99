#include <catch2/catch.hpp>

#include <string>

#include "apps/sim/scripts/script.hpp"
#include "schemas/log.hpp"

using namespace baton::apps::sim::scripts;

namespace {

const std::string begun =
    "# a comment\ncluster nodes=2\ntrace finished\nrun until whole\nturn t prompt=\"hello\" max_tokens=4\n";

}  // namespace

TEST_CASE("the output of a script is written into it, and is then as expected") {
  baton::configure_log("off", "simulation");
  const auto first = run_script(begun + "run until t ends");
  CHECK(first.broken.empty());
  CHECK(first.text.starts_with(begun));
  CHECK(first.text.ends_with("----\nt ends: length, 5+4 tokens, 0 failovers, 0 computed again\n"));
  const auto again = run_script(first.text);
  CHECK(again.broken.empty());
  CHECK(difference(first.text, again.text).empty());
}

TEST_CASE("a wrong expectation is named, with the lines around it") {
  baton::configure_log("off", "simulation");
  const std::string wrong = begun +
                            "run until t ends\n----\nt ends: otherwise\n\nexpect equal t\n----\nt is equal "
                            "to the undisturbed run, 4 tokens\n";
  const auto run = run_script(wrong);
  CHECK(run.broken.empty());
  const std::string differs = difference(wrong, run.text);
  CHECK(differs.find("- t ends: otherwise\n+ t ends: length") != std::string::npos);
  CHECK(differs.find("- t is equal") == std::string::npos);
}

TEST_CASE("what cannot be carried out is named, and ends the script") {
  baton::configure_log("off", "simulation");
  const auto [line, why] = GENERATE(table<std::string, std::string>({
      {"dance", "no command is called dance"},
      {"kill z", "no process is called z"},
      {"trace words", "nothing that can be shown is called words"},
      {"cluster nodes=3", "there is a cluster already"},
      {"turn u prompt=\"x", "a quote does not end"},
      {"turn u length=3", "no option is called length"},
      {"run until t has many tokens", "a number is expected"},
      {"run until seal", "no such message within 20 s"},
      {"expect equal t", "t has not finished"},
  }));
  const auto run = run_script(begun + line + "\nkill a\n");
  INFO(run.broken);
  CHECK(run.broken.starts_with("line 6: " + line));
  CHECK(run.broken.find(why) != std::string::npos);
}

TEST_CASE("a rule that is left out must be missed, and none is with all rules") {
  baton::configure_log("off", "simulation");
  const std::string rest = "\nrun until whole\nturn t prompt=\"hello\" max_tokens=4\nrun until t ends\n";
  CHECK(run_script("cluster nodes=2 violates=INV15" + rest).broken.find("nothing to violate") !=
        std::string::npos);
  CHECK(run_script("cluster nodes=2 without=checksums violates=INV15" + rest).broken ==
        "the end: INV15 has not been violated");
}

TEST_CASE("a violation fails a script, whatever it expects") {
  baton::configure_log("off", "simulation");
  const std::string script =
      "cluster nodes=2 without=commit_wait\nrun until whole\nhold records_frame from a to b\nturn t "
      "prompt=\"hello\" "
      "max_tokens=4\nrun until t ends\n";
  const auto run = run_script(script);
  INFO(run.broken);
  CHECK(run.broken.find("violation: INV3") != std::string::npos);
}
