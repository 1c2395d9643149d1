// Tests the all-to-all of tokens for experts on several emulated ranks. Each row must arrive at its place for
// random sizes and schedules, and faults must be named if one piece of the code is wrong.
#include <doctest/doctest.h>

#include "error_kit.h"
#include "tests/ranks/mutant_kit.h"
#include "tests/ranks/refusal_kit.h"
#include "tests/ranks/tokens_kit.h"

namespace ptxbuilder::test::ranked_tokens_test {
namespace {

using AllTokens = std::vector<std::unique_ptr<kernels::RankedTokens>>;

AllTokens tokens_of(RankedRun::Devices& devices, const LoadOptions& options = uncached()) {
  AllTokens all;
  for (auto& device : devices)
    all.push_back(std::make_unique<kernels::RankedTokens>(*device, kernels::CallOptions{options}));
  return all;
}

void call(AllTokens& tokens, const TokensRun& run, TokenForm form, int multiprocessors = 2) {
  for (size_t r = 0; r < tokens.size(); ++r) {
    kernels::RankedTokensArguments p = run.arguments(static_cast<int>(r), form);
    p.multiprocessors = multiprocessors;
    (*tokens[r])(form, p);
  }
}

// Returns one PTX file with the kernels of both forms, which are loaded at once. The kernel of `first` comes
// first.
std::string ptx_of_both(TokenForm first, int ranks) {
  const std::string other = compiled_ptx(kernels::token_exchange(
      first == TokenForm::dispatch ? TokenForm::combine : TokenForm::dispatch, ranks));
  const std::string header_end = ".address_size 64\n";
  return compiled_ptx(kernels::token_exchange(first, ranks)) +
         other.substr(other.find(header_end) + header_end.size());
}

// Runs both forms twice with the same exchange memory, each time with different rows.
void exchange_often(const TokensCase& c, uint64_t seed) {
  auto devices = ranked_devices("emulator", c.ranks, of_seed(seed));
  AllTokens tokens = tokens_of(devices);
  TokensRun run(devices, c, seed + 1);
  for (int i = 0; i < 2; ++i) {
    call(tokens, run, TokenForm::dispatch);
    run.synchronize();
    CHECK(run.is_dispatched());
    run.answer();
    call(tokens, run, TokenForm::combine);
    run.synchronize();
    CHECK(run.is_combined());
    run.poison();
    for (const TokenForm form : {TokenForm::dispatch, TokenForm::combine}) call(tokens, run, form);
    run.synchronize();
    CHECK((run.is_dispatched() && run.has_come_back()));
    run.draw_again();
  }
}

// Queues several calls one after the other. The third finds the data of the first in its place.
void dispatch_often(const TokensCase& c, uint64_t seed, const LoadOptions& options) {
  auto devices = ranked_devices("emulator", c.ranks, of_seed(seed));
  AllTokens tokens = tokens_of(devices, options);
  TokensRun run(devices, c, seed + 1);
  for (int i = 0; i < 3; ++i) call(tokens, run, TokenForm::dispatch);
  run.synchronize();
  CHECK(run.is_dispatched());
}

void combine_often(const TokensCase& c, uint64_t seed, const LoadOptions& options) {
  auto devices = ranked_devices("emulator", c.ranks, of_seed(seed));
  AllTokens right = tokens_of(devices), tokens = tokens_of(devices, options);
  TokensRun run(devices, c, seed + 1);
  call(right, run, TokenForm::dispatch);
  run.answer();
  for (int i = 0; i < 3; ++i) call(tokens, run, TokenForm::combine);
  run.synchronize();
  CHECK(run.is_combined());
}

}  // namespace

TEST_CASE("tokens come to the ranks of their experts and back on every schedule") {
  std::mt19937_64 engine(47);
  const auto draw = [&](uint64_t most) { return static_cast<int64_t>(engine() % most) + 1; };
  std::vector<TokensCase> cases = {{2, 1, 5, 16, true}, {2, 40, 90, 2064}, {3, 2, 1, 8192}};
  for (const int ranks : {2, 3, 4, 8})
    for (int i = 0; i < 3; ++i) cases.push_back({ranks, draw(9), draw(70), 16 * draw(90), i == 0});
  for (const TokensCase& c : cases) {
    const uint64_t seed = engine() % 1000;
    CAPTURE(c.ranks);
    CAPTURE(c.experts);
    CAPTURE(c.most_rows);
    CAPTURE(c.row_bytes);
    CAPTURE(seed);
    exchange_often(c, seed);
  }
}

TEST_CASE("what orders the ranks of an exchange of tokens is named where it is wrong") {
  const TokensCase c{3, 2, 40, 512, true};  // a remainder modulo two ranks would look like the place itself
  for (const TokenForm form : {TokenForm::dispatch, TokenForm::combine}) {
    const std::string right = ptx_of_both(form, c.ranks);
    for (const PtxMutant& m : {
             PtxMutant{"rows are signalled ahead of their coming", "bar\\.sync \\d+, 256;", "", true},
             PtxMutant{"rows are read ahead of the wait",
                       "(bar\\.sync (\\d+), 256;[\\s\\S]*?ld\\.acquire\\.sys[\\s\\S]*?)bar\\.sync \\2, 256;",
                       "$1", true},
             PtxMutant{"a release of the GPU's scope", "st\\.release\\.sys", "st.release.gpu"},
             PtxMutant{"an acquire of the GPU's scope", "ld\\.acquire\\.sys", "ld.acquire.gpu"},
             PtxMutant{"a place is overwritten that a peer still reads", "(and\\.b32 \t%r\\d+, %r\\d+), 1;",
                       "$1, 0;", true},
             PtxMutant{"another rank's word", "(mad\\.lo\\.s32 \t%r\\d+, )%r\\d+(, 1023)", "$1%r1$2", true},
         }) {
      const std::string what = m.what;
      CAPTURE(what);
      const std::string report = report_of(m, right, [&](uint64_t seed, const LoadOptions& options) {
        form == TokenForm::dispatch ? dispatch_often(c, seed, options) : combine_often(c, seed, options);
      });
      CHECK(report.find("of device ") != std::string::npos);
    }
  }
}

TEST_CASE("ranks that give different sizes end with a trap") {
  const auto call_with = [](int64_t experts, int64_t most_rows, int64_t row_bytes) {
    auto devices = ranked_devices("emulator", 2);
    AllTokens tokens = tokens_of(devices);
    TokensRun run(devices, {2, 3, 8, 64}, 1);
    for (int r = 0; r < 2; ++r) {
      kernels::RankedTokensArguments p = run.arguments(r, TokenForm::dispatch);
      p.rows = 5, p.multiprocessors = 1;
      if (r == 1) p.experts = experts, p.most_rows = most_rows, p.row_bytes = row_bytes;
      (*tokens[static_cast<size_t>(r)])(TokenForm::dispatch, p);
    }
    run.synchronize();
  };
  call_with(3, 8, 64);
  CHECK_ERROR(call_with(2, 8, 64), "trap");
  CHECK_ERROR(call_with(3, 7, 64), "trap");
  CHECK_ERROR(call_with(3, 8, 48), "trap");
}

TEST_CASE("exchanges of tokens that cannot be right are refused, and their neighbours are not") {
  auto devices = ranked_devices("emulator", 2);
  AllTokens tokens = tokens_of(devices);
  TokensRun run(devices, {2, 3, 8, 64}, 1);
  const auto call_with = [&](const Refusals<kernels::RankedTokensArguments>::Change& change) {
    for (int r = 0; r < 2; ++r) {
      kernels::RankedTokensArguments p = run.arguments(r, TokenForm::dispatch);
      p.multiprocessors = 1;
      change(p);
      (*tokens[static_cast<size_t>(r)])(TokenForm::dispatch, p);
    }
    run.synchronize();
  };
  const Refusals<kernels::RankedTokensArguments> refused(call_with);
  const auto nothing = [](auto&) {};
  refused([](auto& p) { p.rank = 2; }, "the rank is 2 of 2, but must be one of the ranks", nothing);
  refused([](auto& p) { p.memory.pop_back(); },
          "the exchange memory of 1 ranks was given, but there must be 2 to 64 ranks", nothing);
  refused([](auto& p) { p.experts = 0; },
          "there are 0 experts on each of 2 ranks, but each rank must have at least 1",
          [](auto& p) { p.experts = 1; });
  refused([](auto& p) { p.row_bytes = 40; }, "a row has 40 B, but must have a multiple of 16 B",
          [](auto& p) { p.row_bytes = 48; });
  refused([](auto& p) { p.rows = 9; }, "rows is 9 and most_rows is 8, but rows must be 0 to most_rows",
          [](auto& p) { p.rows = 8; });
  refused([](auto& p) { p.rows = -1; }, "rows is -1 and most_rows is 8", [](auto& p) { p.rows = 0; });
  refused([](auto& p) { p.grouped.bytes -= 1; }, "grouped has 1023 B, but must have 1024", nothing);
  refused([](auto& p) { p.ends.address += 2; }, "but must begin at a multiple of 4 B", nothing);
  refused([](auto& p) { p.splits.bytes -= 4; }, "splits has 20 B, but must have 24", nothing);
  refused([](auto& p) { p.grouped_ends.bytes = 0; }, "grouped_ends has 0 B, but must have 12", nothing);
  refused([](auto& p) { p.memory[1].bytes -= 256; }, "the exchange memory of rank 1 has ",
          [](auto& p) {
            p.row_bytes = 32;
            for (runtime::View& memory : p.memory) memory.bytes -= 256;
          });
  refused([](auto& p) { p.row_bytes = 32, p.memory[1].bytes -= 256; }, "all must have the same size",
          nothing);
  refused([](auto& p) { p.multiprocessors = -1; }, "multiprocessors is -1, but must be 0 or more", nothing);
}

}  // namespace ptxbuilder::test::ranked_tokens_test
