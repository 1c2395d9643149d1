#include "kernels/ranks/all_reduce_norm.h"

#include <fmt/format.h>

#include "kernels/ranks/exchange.h"
#include "kernels/rows/element.h"
#include "kernels/rows/row.h"
#include "ptxbuilder/tile/named_barrier.h"

namespace ptxbuilder::kernels {

RowOperation all_reduce_rms_norm() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {.name = "all_reduce_rms_norm",
          .summary = "the sum of all ranks' x and of the residual, and its RMS norm",
          .tensors = {{"x", {"rows", "columns"}, any, read, "this rank's part of the sum"},
                      {"residual", {"rows", "columns"}, of_first, read_if_given, "the same on all ranks"},
                      {"weight", {"columns"}, any, read_if_given, "a factor of each column"},
                      {"y", {"rows", "columns"}, of_first, written, "the norm of new_residual, times weight"},
                      {"new_residual", {"rows", "columns"}, of_first, written, "the sum"}},
          .numbers = {{"epsilon", 1e-6F, "what is added to the mean square"}},
          .limits = {.values = 16, .values_of_words = 16},
          .stays = true};
}

Kernel all_reduce_norm(const RowProblem& problem, int ranks, Where where) {
  const DType type = *problem.types[0];
  std::optional<NamedBarrier> meeting;  // barrier for the threads of the CTA
  const auto memory_of = [](int rank) { return fmt::format("memory_{}", rank); };
  const auto declare = [&](Kernel& k, Parameters& p) {
    k.cooperative();
    meeting = k.named_barrier(problem.tile.warpgroups() * RegisterLayout::kThreads);
    for (int r = 0; r < ranks; ++r)
      p.add(memory_of(r), Parameter::Kind::pointer, DType::u32, "the exchange memory of a rank");
    p.add("own", Parameter::Kind::pointer, DType::u32, "the exchange memory of this rank");
    p.add("rank", Parameter::Kind::scalar, DType::u32, "the number of this rank");
    p.add("place_bytes", Parameter::Kind::scalar, DType::u64, "between the two places for data");
  };
  return rows_kernel(
      problem, declare,
      [&](RowThreads& threads, const Parameters& p) {
        const auto own = p.get<gptr<u32>>("own");
        std::vector<gptr<u32>> all;
        for (int r = 0; r < ranks; ++r) all.push_back(p.get<gptr<u32>>(memory_of(r)));
        const PeerExchange exchange(own, all, p.get<u32>("rank"));
        const u64 bytes_of_rank =
            u64(p.get<u32>("rows")) * u64(p.get<u32>("columns")) * static_cast<uint64_t>(size_of(type));
        const auto rows_in = [&](gptr<u32> memory, u32 rank) {
          return gmem(memory) + (u64(exchange.place()) * p.get<u64>("place_bytes") +
                                 u64(rank) * bytes_of_rank + uint64_t{kExchangeBytes});
        };
        threads.for_each([&](Row& row) {
          const Numbers x = row.load("x");
          for (const gptr<u32>& memory : all) row.store_to(rows_in(memory, p.get<u32>("rank")), type, x);
        });
        meeting->sync();
        exchange.signal(tid_x());
        const auto weight = threads.columns("weight", 1);
        Var<pred> waits(pred(true));
        threads.for_each([&](Row& row) {
          std::optional<Numbers> residual;  // the residual is loaded before the wait
          if (row.has("residual")) residual = row.load("residual");
          if_(waits.value(), [&] {
            exchange.wait(tid_x());
            meeting->sync();
            waits = pred(false);
          });
          Numbers sum = row.load_from(rows_in(own, u32(0)), type);
          for (int r = 1; r < ranks; ++r)
            sum = sum + row.load_from(rows_in(own, u32(static_cast<uint32_t>(r))), type);
          if (residual) sum = sum + *residual;
          row.store("new_residual", sum);
          const Numbers x = with_type(type, [&]<class T>(T) { return widened(narrowed<T>(sum)); });
          const Numbers scale = rsqrt(row.sum(x * x) / row.columns() + row.number("epsilon"));
          row.store("y", x * row.spread(scale) * weight(row));
        });
        if_(tid_x() == 0, [&] { exchange.left(); });
      },
      where);
}

}  // namespace ptxbuilder::kernels
