#include "kernels/ranks/ranked_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/call/kernel_cache.h"
#include "kernels/call/told_call.h"
#include "kernels/call/watched.h"
#include "kernels/ranks/known_calls.h"
#include "runtime/compile/load.h"
#include "runtime/loaded_kernel.h"

namespace ptxbuilder::kernels {
namespace {

constexpr std::string_view kName = "an exchange of tokens";

// Returns how many bytes the words in a part occupy. A place of the exchange memory has a part for each
// sender. The part begins with room for the words of each CTA of the sender (the sizes, and the ends of the
// rows for each expert) and continues with the rows.
size_t bytes_of_words(int64_t experts) {
  return aligned_for_peers(PeerExchange::most_ctas() * static_cast<size_t>(experts + kTokenSizes) * 4);
}

void check_sizes(const RankedTokensArguments& p) {
  const auto ranks = static_cast<int64_t>(p.memory.size());
  check_peers(kName, p.memory, p.rank);
  constexpr int64_t most_words = int64_t{1} << 31, most_experts = 1 << 14;
  if (p.experts < 1 || p.experts * ranks > most_experts)
    throw Error(
        fmt::format("there are {} experts on each of {} ranks, but each rank must have at least 1, and all "
                    "together at most {}",
                    p.experts, ranks, most_experts));
  if (p.row_bytes < 16 || p.row_bytes % 16 != 0 || p.row_bytes >= most_words)
    throw Error(fmt::format("a row has {} B, but must have a multiple of 16 B, less than 2^31", p.row_bytes));
  if (p.rows < 0 || p.rows > p.most_rows)
    throw Error(
        fmt::format("rows is {} and most_rows is {}, but rows must be 0 to most_rows, and most_rows must be "
                    "equal on all ranks",
                    p.rows, p.most_rows));
  if (p.most_rows >= most_words / ranks)
    throw Error(fmt::format("most_rows is {} on each of {} ranks, but their product must be less than 2^31",
                            p.most_rows, ranks));
  if (p.multiprocessors < 0)
    throw Error(fmt::format("multiprocessors is {}, but must be 0 or more", p.multiprocessors));
}

void check_tensors(const RankedTokensArguments& p, TokenForm form) {
  const auto ranks = static_cast<int64_t>(p.memory.size());
  const auto wants = [](const char* what, const runtime::View& memory, int64_t bytes, uint64_t unit) {
    if (memory.address % unit != 0)
      throw Error(fmt::format("{} begins at {:#x}, but must begin at a multiple of {} B", what,
                              memory.address, unit));
    if (memory.bytes < static_cast<uint64_t>(bytes))
      throw Error(fmt::format("{} has {} B, but must have {}", what, memory.bytes, bytes));
  };
  wants("sorted", p.sorted, p.rows * p.row_bytes, 16);
  wants("grouped", p.grouped, ranks * p.most_rows * p.row_bytes, 16);
  wants("ends", p.ends, ranks * p.experts * 4, 4);
  wants("splits", p.splits, ranks * p.experts * 4, 4);
  if (form == TokenForm::dispatch) wants("grouped_ends", p.grouped_ends, p.experts * 4, 4);
  check_peer_memory(kName, p.memory,
                    RankedTokens::memory_bytes(static_cast<int>(ranks), p.experts, p.most_rows, p.row_bytes));
}

constexpr size_t kWords = kWordsOfPeers + 5 + RankedSources::kMostTensors * kWordsOfView;

auto words_of(const RankedTokensArguments& p, TokenForm form) {
  return [&p, form](const auto& word) {
    words_of_peers(word, 0, p);
    size_t at = kWordsOfPeers;
    for (const int64_t number : {static_cast<int64_t>(form), p.experts, p.rows, p.most_rows, p.row_bytes})
      word(at++, static_cast<uint64_t>(number));
    for (const runtime::View* view : {&p.sorted, &p.ends, &p.grouped, &p.splits, &p.grouped_ends}) {
      words_of_view(word, at, *view);
      at += kWordsOfView;
    }
  };
}

void add_arguments(SourcedArguments& to, const RankedTokensArguments& p, TokenForm form) {
  std::vector<runtime::View> tensors = {p.sorted, p.ends, p.grouped, p.splits};
  if (form == TokenForm::dispatch) tensors.push_back(p.grouped_ends);
  for (size_t i = 0; i < tensors.size(); ++i)
    to.add(RankedSources::tensor(i), [&] { return runtime::pointer(tensors[i], DType::u32); });
  for (size_t r = 0; r < p.memory.size(); ++r)
    to.add(RankedSources::memory(r), [&] { return runtime::pointer(p.memory[r], DType::u32); });
  for (const int64_t number : {int64_t{p.rank}, p.rows, p.experts, p.row_bytes, p.most_rows})
    to.add(SourcedArguments::kNone, [&] { return runtime::scalar(static_cast<uint32_t>(number)); });
  for (const size_t bytes : {peer_place_bytes(p.memory[0], p.memory.size()), bytes_of_words(p.experts)})
    to.add(SourcedArguments::kNone, [&] { return runtime::scalar(uint64_t{bytes}); });
}

}  // namespace

struct RankedTokens::State {
  // Returns the kernel for a form, after loading the kernels for both. Loading may wait for work on the
  // device. If the combine were loaded after the launch of the dispatch, it might wait for the dispatch,
  // which runs until the dispatches of the other ranks run. If one thread launches the calls of several
  // ranks, this could be a deadlock.
  runtime::LoadedKernel& kernel(TokenForm form, int ranks) {
    const auto loaded = [&](TokenForm each) -> runtime::LoadedKernel& {
      return kernels.get(each, ranks, [&] {
        const WatchedKernels watched;
        return std::make_unique<runtime::LoadedKernel>(
            load(device, token_exchange(each, ranks), load_options));
      });
    };
    runtime::LoadedKernel &dispatch = loaded(TokenForm::dispatch), &combine = loaded(TokenForm::combine);
    return form == TokenForm::dispatch ? dispatch : combine;
  }

  void call(TokenForm form, const RankedTokensArguments& p, Where where) {
    const RankedSources sources(
        {p.sorted.address, p.ends.address, p.grouped.address, p.splits.address, p.grouped_ends.address},
        p.memory);
    if (known.queue(p.memory, words_of(p, form), sources, p.stream)) return;
    check_sizes(p);
    check_tensors(p, form);
    const auto ctas = std::min(static_cast<uint32_t>(p.multiprocessors ? p.multiprocessors : multiprocessors),
                               PeerExchange::most_ctas());
    SourcedArguments arguments(sources, RankedSources::kMostTensors + p.memory.size() + 7);
    add_arguments(arguments, p, form);
    known.launch(kernel(form, static_cast<int>(p.memory.size())), {.grid = {ctas}, .stream = p.stream},
                 arguments, words_of(p, form), where);
  }

  runtime::Device& device;
  const LoadOptions load_options;
  const int multiprocessors;
  KernelCache<TokenForm, int> kernels = {};
  KnownRankedCalls<kWords> known = {};
};

RankedTokens::RankedTokens(runtime::Device& device, const CallOptions& options)
    : state_(new State{
          device, options.compiler,
          options.multiprocessors ? options.multiprocessors : device.properties().multiprocessors}) {}
RankedTokens::~RankedTokens() = default;

size_t RankedTokens::memory_bytes(int ranks, int64_t experts, int64_t most_rows, int64_t row_bytes) {
  const size_t part = aligned_for_peers(bytes_of_words(experts) + static_cast<size_t>(most_rows * row_bytes));
  return peer_memory_bytes(static_cast<size_t>(ranks) * part);
}

void RankedTokens::operator()(TokenForm form, const RankedTokensArguments& p, Where where) {
  AtLine line(where);
  const auto described = [&] {
    return fmt::format("a {} of tokens of {} ranks, {} rows of {} B",
                       form == TokenForm::dispatch ? "dispatch" : "combine", p.memory.size(), p.rows,
                       p.row_bytes);
  };
  told_call(described, [&] { state_->call(form, p, where); });
}

}  // namespace ptxbuilder::kernels
