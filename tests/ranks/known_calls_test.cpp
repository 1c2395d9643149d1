// Tests calls of ranks whose form is known, and which therefore skip the checks. They must use their own
// addresses and numbers, and similar calls with errors must be refused.
#include <doctest/doctest.h>

#include "error_kit.h"
#include "tests/ranks/mutant_kit.h"
#include "tests/ranks/norm_kit.h"
#include "tests/ranks/tokens_kit.h"

namespace ptxbuilder::test::known_calls_test {
namespace {

constexpr int kRanks = 2;

// Holds the calls of one operation on all ranks.
template <class Operation>
struct Ranked {
  template <class... Options>
  explicit Ranked(RankedRun::Devices& devices, const Options&... options) {
    for (auto& device : devices) of_ranks.push_back(std::make_unique<Operation>(*device, options...));
  }
  Operation& operator[](int rank) { return *of_ranks[static_cast<size_t>(rank)]; }

  std::vector<std::unique_ptr<Operation>> of_ranks;
};

}  // namespace

TEST_CASE("known products of ranks take their own addresses, and their neighbours are refused") {
  auto devices = ranked_devices("emulator", kRanks);
  for (const RankedForm form : {RankedForm::all_gather, RankedForm::reduce_scatter, RankedForm::all_reduce}) {
    CAPTURE(static_cast<int>(form));
    RankedCase c{form, kRanks, 32, 64, 64};
    c.keeps = form == RankedForm::all_gather, c.is_scaled = true;
    Ranked<kernels::RankedProduct> product(devices, form, uncached());
    RankedRun first(devices, c, 1), second(devices, c, 2);
    const auto call = [&](const RankedRun& run, int rank) {
      kernels::RankedArguments p = run.arguments(rank);
      p.multiprocessors = 2;
      product[rank](p);
    };
    for (RankedRun* run : {&first, &second, &first}) {
      run->poison();
      for (int r = 0; r < kRanks; ++r) call(*run, r);
      run->synchronize();
      CHECK(run->worst() <= 1);
      CHECK((!c.keeps || run->has_kept()));
    }
    kernels::RankedArguments p = first.arguments(0);
    p.multiprocessors = 2;
    const kernels::RankedArguments right = p;
    p.memory[1].bytes -= 256;
    CHECK_ERROR(product[0](p), "the exchange memory of rank 1 has ");
    p = right, p.d.bytes -= 2;
    CHECK_ERROR(product[0](p), "D has ");
    p = right, p.a.address += 2;
    CHECK_ERROR(product[0](p), "A begins at ");
    p = right, p.memory[0].address += 16;
    CHECK_ERROR(product[0](p), "at a multiple of 256");
  }
}

TEST_CASE("known norms of ranks take their own addresses and epsilon, and their neighbours are refused") {
  auto devices = ranked_devices("emulator", kRanks);
  Ranked<kernels::RankedNorm> norm(devices, kernels::CallOptions{uncached()});
  const NormCase c{kRanks, 3, 64};
  NormRun first(devices, c, 1), second(devices, c, 2);
  const auto call = [&](NormRun& run, float epsilon) {
    run.poison();
    for (int r = 0; r < kRanks; ++r) {
      kernels::RankedNormArguments p = run.arguments(r);
      p.epsilon = epsilon;
      norm[r](p);
    }
    run.synchronize();
  };
  for (NormRun* run : {&first, &second, &first}) {
    call(*run, 1e-6F);
    CHECK(run->worst() <= 1);
  }
  call(first, 4);
  CHECK(first.worst() > 1);
  call(first, 1e-6F);
  CHECK(first.worst() <= 1);
  kernels::RankedNormArguments p = first.arguments(0);
  const kernels::RankedNormArguments right = p;
  p.y.memory.address = p.new_residual.memory.address + 16;
  CHECK_ERROR(norm[0](p), "overlaps");
  p = right, p.y.memory = p.new_residual.memory;
  CHECK_ERROR(norm[0](p), "overlaps");
  p = right, p.x.memory.address += 2;
  CHECK_ERROR(norm[0](p), "it must begin at a multiple of 16 B");
  p = right, p.rank = 2;
  CHECK_ERROR(norm[0](p), "the rank is 2 of 2");
  p = right, p.residual->extents = {64, 3};
  CHECK_ERROR(norm[0](p), "residual must have the shape [rows, columns]");
}

TEST_CASE("known exchanges of tokens take their own addresses, and their neighbours are refused") {
  auto devices = ranked_devices("emulator", kRanks);
  Ranked<kernels::RankedTokens> tokens(devices, kernels::CallOptions{uncached()});
  const TokensCase c{kRanks, 3, 8, 64, true};  // both runs have the same number of rows
  TokensRun first(devices, c, 1), second(devices, c, 2);
  for (TokensRun* run : {&first, &second, &first}) {
    run->poison();
    for (const TokenForm form : {TokenForm::dispatch, TokenForm::combine})
      for (int r = 0; r < kRanks; ++r) {
        kernels::RankedTokensArguments p = run->arguments(r, form);
        p.multiprocessors = 1;
        tokens[r](form, p);
      }
    run->synchronize();
    CHECK((run->is_dispatched() && run->has_come_back()));
  }
  kernels::RankedTokensArguments p = first.arguments(0, TokenForm::dispatch);
  p.multiprocessors = 1;
  const kernels::RankedTokensArguments right = p;
  p.grouped.bytes -= 16;
  CHECK_ERROR(tokens[0](TokenForm::dispatch, p), "grouped has ");
  p = right, p.ends.address += 2;
  CHECK_ERROR(tokens[0](TokenForm::dispatch, p), "but must begin at a multiple of 4 B");
  p = right, p.grouped_ends = {};
  CHECK_ERROR(tokens[0](TokenForm::dispatch, p), "grouped_ends has 0 B");
}

}  // namespace ptxbuilder::test::known_calls_test
