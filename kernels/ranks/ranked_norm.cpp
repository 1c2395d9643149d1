#include "kernels/ranks/ranked_norm.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/call/kernel_cache.h"
#include "kernels/call/operand.h"
#include "kernels/call/told_call.h"
#include "kernels/call/watched.h"
#include "kernels/ranks/all_reduce_norm.h"
#include "kernels/ranks/known_calls.h"
#include "kernels/rows/row_check.h"
#include "runtime/loaded_kernel.h"

namespace ptxbuilder::kernels {
namespace {

constexpr std::string_view kName = "all_reduce_rms_norm";

// Identifies a kernel, in combination with a tile.
struct NormKey {
  std::vector<std::optional<DType>> types;
  int ranks;
  friend bool operator==(const NormKey&, const NormKey&) = default;
};

// The words of a form describe the types, sizes and alignments of the tensors, and which tensors share an
// address.
constexpr size_t kMostDimensions = 5, kWordsOfOperand = 2 + kWordsOfView + kMostDimensions;
constexpr size_t kWords = kWordsOfPeers + RankedSources::kMostTensors * kWordsOfOperand;
using Operands = std::array<const RowOperand*, RankedSources::kMostTensors>;  // null for omitted tensors

Operands operands_of(const RankedNormArguments& p) {
  return {&p.x, p.residual ? &*p.residual : nullptr, p.weight ? &*p.weight : nullptr, &p.y, &p.new_residual};
}

bool has_form(const Operands& all) {
  return std::ranges::all_of(all, [](const RowOperand* x) {
    return !x || (x->strides.empty() && x->extents.size() <= kMostDimensions);
  });
}

auto words_of(const RankedNormArguments& p) {
  return [&p](const auto& word) {
    words_of_peers(word, 0, p);
    const Operands all = operands_of(p);
    for (size_t i = 0; i < all.size(); ++i) {
      const RowOperand* x = all[i];
      size_t at = kWordsOfPeers + i * kWordsOfOperand;
      uint64_t same = 0;
      for (size_t k = 0; x && k < i; ++k)
        if (all[k] && all[k]->memory.address == x->memory.address) same |= uint64_t{1} << k;
      word(at++, same);
      word(at++, x ? 1 | uint64_t{x->extents.size()} << 8 | static_cast<uint64_t>(x->type) << 16 : 0);
      words_of_view(word, at, x ? x->memory : runtime::View{});
      at += kWordsOfView;
      for (size_t d = 0; d < kMostDimensions; ++d)
        word(at++, x && d < x->extents.size() ? static_cast<uint64_t>(x->extents[d]) : 0);
    }
  };
}

// Returns whether no result overlaps another tensor, except that tensors may have the same address. This has
// to be checked for each call, since the form does not determine it.
bool lies_apart(const Operands& all) {
  for (const RowOperand* written : {all[3], all[4]})
    for (const RowOperand* x : all)
      if (x && x->memory.address != written->memory.address && !lie_apart(x->memory, written->memory))
        return false;
  return true;
}

RowCall call_of(const RankedNormArguments& p, const RowOperation& operation) {
  RowCall call;
  call.operation = &operation;
  call.tensors = {p.x, p.residual, p.weight, p.y, p.new_residual};
  call.numbers = {p.epsilon};
  call.stream = p.stream;
  return call;
}

// Checks that the addresses have the alignment that the sizes allow. All ranks must divide rows in the same
// way, so the tile must not depend on the addresses of one rank.
void check_alignment(const RowCall& call, const CheckedRows& checked) {
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    if (!call.tensors[i]) continue;
    const DType type = call.tensors[i]->type;
    const runtime::View memory = call.tensors[i]->memory;
    const int64_t columns = checked.columns(), most = 16 / size_of(type),
                  side_by_side = std::min(most, columns & -columns);
    const auto unit = static_cast<uint64_t>(side_by_side * size_of(type));
    if (memory.address % unit != 0)
      throw Error(
          fmt::format("all_reduce_rms_norm: {} begins at {:#x}, but with {} columns of {} it must begin at a "
                      "multiple of {} B, as on all ranks",
                      call.operation->tensors[i].name, memory.address, columns, name(type), unit));
  }
}

}  // namespace

struct RankedNorm::State {
  State(runtime::Device& the_device, const CallOptions& options)
      : device(the_device),
        load_options(options.compiler),
        multiprocessors(options.multiprocessors ? options.multiprocessors
                                                : the_device.properties().multiprocessors) {}

  runtime::LoadedKernel& kernel(const RowProblem& problem, int ranks) {
    return kernels.get(NormKey{problem.types, ranks}, problem.tile, [&] {
      const WatchedKernels watched;
      Kernel built = all_reduce_norm(problem, ranks);
      for (const char* advisory : {"spills", "stack"}) built.waive(advisory);
      return std::make_unique<runtime::LoadedKernel>(load(device, std::move(built), load_options));
    });
  }

  // Returns the number of CTAs in a launch. All of them run at once.
  static uint32_t ctas(const CheckedRows& c, int multiprocessors) {
    RowTile tile = c.problem.tile;
    if (tile.ctas > 1) tile.at_once = 1;
    const int64_t most = PeerExchange::most_ctas() / static_cast<uint32_t>(tile.ctas);
    return static_cast<uint32_t>(std::min(row_parts(tile, c.rows(), multiprocessors), most) * tile.ctas);
  }

  void call(const RankedNormArguments& p, Where where) {
    const Operands operands = operands_of(p);
    std::array<runtime::Address, RankedSources::kMostTensors> addresses = {};
    for (size_t i = 0; i < operands.size(); ++i) addresses[i] = operands[i] ? operands[i]->memory.address : 0;
    const RankedSources sources(addresses, p.memory, runtime::scalar(p.epsilon).bits);
    const bool is_kept = has_form(operands);
    if (is_kept && lies_apart(operands) && known.queue(p.memory, words_of(p), sources, p.stream)) return;
    const RowCall call = call_of(p, operation);
    const CheckedRows c = check_rows(call, where);
    if (p.multiprocessors < 0)
      throw Error(fmt::format("{}: multiprocessors is {}, but must be 0 or more", kName, p.multiprocessors));
    const auto bytes = static_cast<size_t>(c.rows() * c.columns() * size_of(p.x.type));
    check_peers(kName, p.memory, p.rank);
    check_peer_memory(kName, p.memory, RankedNorm::memory_bytes(static_cast<int>(p.memory.size()), bytes));
    if (c.is_empty) return;
    check_row_addresses(call, where);
    check_alignment(call, c);
    const std::vector<std::string> sizes = operation.sizes();
    SourcedArguments arguments(sources, operands.size() + sizes.size() + p.memory.size() + 4);
    for (size_t i = 0; i < operands.size(); ++i)
      if (operands[i])
        arguments.add(RankedSources::tensor(i),
                      [&] { return runtime::pointer(operands[i]->memory, operands[i]->type); });
    for (const std::string& word : sizes)
      arguments.add(SourcedArguments::kNone,
                    [&] { return runtime::scalar(static_cast<uint32_t>(c.sizes.at(word))); });
    arguments.add(RankedSources::kNumber, [&] { return runtime::scalar(p.epsilon); });
    const auto add_memory = [&](size_t r) {
      arguments.add(RankedSources::memory(r), [&] { return runtime::pointer(p.memory[r], DType::u32); });
    };
    for (size_t r = 0; r < p.memory.size(); ++r) add_memory(r);
    add_memory(static_cast<size_t>(p.rank));
    arguments.add(SourcedArguments::kNone, [&] { return runtime::scalar(static_cast<uint32_t>(p.rank)); });
    arguments.add(SourcedArguments::kNone,
                  [&] { return runtime::scalar(uint64_t{peer_place_bytes(p.memory[0])}); });
    const uint32_t grid = ctas(c, p.multiprocessors ? p.multiprocessors : multiprocessors);
    known.launch(kernel(c.problem, static_cast<int>(p.memory.size())), {.grid = {grid}, .stream = p.stream},
                 arguments, words_of(p), where, is_kept);
  }

  runtime::Device& device;
  const LoadOptions load_options;
  const int multiprocessors;
  const RowOperation operation = all_reduce_rms_norm();
  KernelCache<NormKey, RowTile> kernels;
  KnownRankedCalls<kWords> known;
};

RankedNorm::RankedNorm(runtime::Device& device, const CallOptions& options)
    : state_(std::make_unique<State>(device, options)) {}
RankedNorm::~RankedNorm() = default;

size_t RankedNorm::memory_bytes(int ranks, size_t bytes) {
  return peer_memory_bytes(static_cast<size_t>(ranks) * bytes);
}

void RankedNorm::operator()(const RankedNormArguments& p, Where where) {
  AtLine line(where);
  told_call(
      [&] { return fmt::format("all_reduce_rms_norm of {} ranks, x {}", p.memory.size(), name(p.x.type)); },
      [&] { state_->call(p, where); });
}

}  // namespace ptxbuilder::kernels
