#include "kernels/bench/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace ptxbuilder::bench {
namespace {

std::vector<Regime> chosen_regimes(const CommonWords& words) {
  if (words.regimes.empty()) return {Regime::sustained};
  std::vector<Regime> regimes;
  for (const std::string& word : words.regimes) {
    if (word != name(Regime::sustained) && word != name(Regime::cool))
      throw UsageError(fmt::format("--regimes '{}' is not one of sustained, cool", word));
    const Regime regime = word == name(Regime::cool) ? Regime::cool : Regime::sustained;
    if (std::find(regimes.begin(), regimes.end(), regime) != regimes.end())
      throw UsageError(fmt::format("--regimes: {} is given twice", word));
    regimes.push_back(regime);
  }
  return regimes;
}

std::vector<PeerCommand> chosen_peers(const CommonWords& words) {
  std::vector<PeerCommand> peers;
  for (const std::string& word : words.peers) {
    const size_t at = word.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == word.size())
      throw UsageError(fmt::format("--peer '{}' is not NAME=COMMAND", word));
    PeerCommand peer = {word.substr(0, at), word.substr(at + 1)};
    for (const PeerCommand& other : peers)
      if (other.name == peer.name) throw UsageError(fmt::format("--peer: {} is given twice", peer.name));
    peers.push_back(std::move(peer));
  }
  return peers;
}

MethodOptions chosen_method(const CommonWords& words) {
  MethodOptions m;
  if (words.quick)
    m = {.rounds = 8,
         .burst_milliseconds = 5,
         .least_launches = 5,
         .warm_up_seconds = 0.3,
         .rest_milliseconds = 200,
         .seed = 0};
  m.rounds = words.rounds.value_or(m.rounds);
  m.burst_milliseconds = words.burst.value_or(m.burst_milliseconds);
  m.least_launches = words.least_launches.value_or(m.least_launches);
  m.warm_up_seconds = words.warm_up.value_or(m.warm_up_seconds);
  m.rest_milliseconds = words.rest.value_or(m.rest_milliseconds);
  if (words.brief_check) m.checked_elements = 24, m.compares_rows = false;
  m.energy_seconds = words.energy.value_or(0);
  m.seed = words.seed ? *words.seed : std::random_device()();
  return m;
}

}  // namespace

void add_method_options(const command::Arguments& app, CommonWords& words, Options& options) {
  app.option("--regimes", words.regimes, "sustained, cool, or both separated by a comma")
      .by_comma()
      .shown_as("NAME,...");
  app.flag("--quick", words.quick, "8 rounds of 5 ms, 0.3 s of warm-up: a first look");
  app.option("--rounds", words.rounds, "number of rounds; every contender runs once per round (30)")
      .from(1, 10000)
      .shown_as("N");
  app.option("--burst-ms", words.burst, "the least duration of a burst of launches in a round (20)")
      .from(0.1, 10000.0)
      .shown_as("MS");
  app.option("--launches", words.least_launches, "the least number of launches in a burst (20)")
      .from(1, 100000)
      .shown_as("N");
  app.option("--warm-up", words.warm_up, "warm-up for each shape in the sustained regime, in seconds (3)")
      .from(0.0, 600.0)
      .shown_as("S");
  app.option("--rest-ms", words.rest, "the pause before each burst of the regime cool (300)")
      .from(0.0, 10000.0)
      .shown_as("MS");
  app.flag("--brief-check", words.brief_check, "check only 24 elements of each result against float64");
  app.option("--energy", words.energy,
             "then run each contender for this many seconds, and measure the joules of one product with "
             "NVML's counter")
      .from(0.5, 600.0)
      .shown_as("S");
  app.option("--time-limit", options.time_limit_seconds,
             "seconds for the whole run; the shapes measured by then are reported")
      .from(1.0, 1e6)
      .shown_as("S");
  app.option("--seed", words.seed, "seed of data, order and drawn shapes; random unless given").shown_as("N");
  app.option("--device", words.device, "cuda: the emulator has no speed worth knowing").shown_as("NAME");
}

void add_peer_options(const command::Arguments& app, CommonWords& words, Options& options) {
  app.option("--peer", words.peers,
             "a contender in a process of its own, which follows the protocol of "
             "kernels/bench/peers/peer_process.h; may be repeated")
      .shown_as("NAME=COMMAND");
  app.option("--peer-limit", options.peer_limit_seconds, "seconds that a peer may take for an answer (300)")
      .from(0.1, 1e5)
      .shown_as("S");
}

void add_compiler_options(const command::Arguments& app, CommonWords& words, Options& options) {
  app.option("--ptxas", options.ours.ptxas, "the ptxas to use; else the one in PATH, CUDA_PATH or /usr/local")
      .shown_as("FILE");
  app.flag("--driver-assembles", words.driver, "let the driver compile PTX, even if ptxas is available");
  app.flag("--no-cache", words.no_cache, "compile again, and keep nothing");
}

void add_report_options(const command::Arguments& app, Options& options) {
  app.flag("--list", options.list, "print the shapes that would run, and exit");
  app.option("--json", options.json, "write all results to FILE after each shape").shown_as("FILE");
  app.option("--markdown", options.markdown, "write the report to FILE after each shape").shown_as("FILE");
}

void add_chart_option(const command::Arguments& app, Options& options) {
  app.option("--svg", options.svg, "write charts there, after each shape").shown_as("FILE");
}

void check_device(const CommonWords& words) {
  if (words.device == "cuda" || words.device == "auto") return;
  if (words.device == "emulator")
    throw Error(
        "--device emulator: a benchmark needs a Hopper GPU, since the speed of an emulator says nothing "
        "about a GPU; `ptxb run` verifies kernels on the emulator");
  throw UsageError(fmt::format("--device '{}' is not cuda", words.device));
}

void settle(const CommonWords& words, Options& options) {
  options.method = chosen_method(words);
  options.regimes = chosen_regimes(words);
  options.peers = chosen_peers(words);
  options.ours.driver_assembles = words.driver;
  options.ours.cache = !words.no_cache;
  options.ours.seed = options.method.seed;
}

void read_words(const std::function<void()>& read) {
  try {
    read();
  } catch (const UsageError&) {
    throw;
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
}

}  // namespace ptxbuilder::bench
