#include "kernels/rows/rows.h"

#include <fmt/format.h>

#include "kernels/call/kernel_cache.h"
#include "kernels/call/operand.h"
#include "kernels/call/prepared_calls.h"
#include "kernels/call/told_call.h"
#include "kernels/call/watched.h"
#include "kernels/rows/operations.h"
#include "kernels/rows/row_check.h"
#include "runtime/loaded_kernel.h"

namespace ptxbuilder::kernels {
namespace {

// Identifies a kernel, in combination with a tile.
struct RowKey {
  const RowOperation* operation;
  std::vector<std::optional<DType>> types;
  friend bool operator==(const RowKey&, const RowKey&) = default;
};

size_t bytes_of_part(const CheckedRows& c, int64_t parts) {
  return static_cast<size_t>(round_up(parts * c.columns() * size_of(DType::f32), kPartAlignment));
}

// Returns the indices of summed results that are present.
std::vector<size_t> summed(const RowOperation& o, const std::vector<std::optional<DType>>& types) {
  std::vector<size_t> all;
  for (size_t i = 0; i < types.size(); ++i)
    if (types[i] && o.tensors[i].is_summed) all.push_back(i);
  return all;
}

// Limits for calls that are cached by their form. Calls of the same form differ only in addresses, numbers
// and stream. The form includes all extents and types, the alignment of each address, and which tensors share
// an address.
constexpr size_t kKeptTensors = 8, kKeptRank = 5, kKeptNumbers = 4;
constexpr size_t kOfTensor = 2 + kKeptRank, kFormWords = 2 + kKeptTensors * kOfTensor;
constexpr size_t kFirstTensor = SourcedArguments::kWorkspace + 1, kFirstNumber = kFirstTensor + kKeptTensors;
using Sources = std::array<uint64_t, kFirstNumber + kKeptNumbers>;

bool has_form(const RowCall& call) {
  if (!call.operation || call.tensors.size() > kKeptTensors || call.numbers.size() > kKeptNumbers)
    return false;
  return std::all_of(call.tensors.begin(), call.tensors.end(), [](const auto& x) {
    return !x || (x->extents.size() <= kKeptRank && x->strides.empty());
  });
}

auto words_of(const RowCall& call) {
  return [&call](const auto& word) {
    constexpr uint64_t kAccess = 16;
    word(0, reinterpret_cast<uintptr_t>(call.operation));
    word(1, call.numbers.size() | uint64_t{call.tensors.size()} << 32);
    for (size_t i = 0; i < call.tensors.size(); ++i) {
      size_t at = 2 + i * kOfTensor;
      const std::optional<RowOperand>& x = call.tensors[i];
      uint64_t same = 0;
      for (size_t k = 0; x && k < i; ++k)
        if (call.tensors[k] && call.tensors[k]->memory.address == x->memory.address) same |= uint64_t{1} << k;
      word(at++, x ? 1 | (x->memory.address == 0) << 1 | x->memory.address % kAccess << 2 |
                         x->extents.size() << 8 | uint64_t(x->type) << 16 | same << 32
                   : 0);
      word(at++, x ? x->memory.bytes : 0);
      for (size_t d = 0; d < kKeptRank; ++d)
        word(at++, x && d < x->extents.size() ? static_cast<uint64_t>(x->extents[d]) : 0);
    }
  };
}

Sources sources_of(const RowCall& call) {
  Sources sources = {};
  sources[SourcedArguments::kWorkspace] = call.workspace.address;
  for (size_t i = 0; i < std::min(kKeptTensors, call.tensors.size()); ++i)
    if (call.tensors[i]) sources[kFirstTensor + i] = call.tensors[i]->memory.address;
  const size_t numbers = std::min(kKeptNumbers, call.operation->numbers.size());
  for (size_t i = 0; i < numbers; ++i)
    sources[kFirstNumber + i] =
        runtime::scalar(i < call.numbers.size() ? call.numbers[i] : call.operation->numbers[i].unsaid).bits;
  return sources;
}

// Returns whether no result overlaps another tensor, except that tensors may have the same address, and
// whether the workspace overlaps no tensor. This has to be checked for each call, since the form does not
// determine it.
bool lies_apart(const RowCall& call, size_t workspace) {
  const runtime::View own = {call.workspace.address, workspace};
  if (workspace > 0 &&
      (own.address == 0 || own.address % kPartAlignment != 0 || call.workspace.bytes < workspace))
    return false;
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    if (!call.tensors[i]) continue;
    const runtime::View x = call.tensors[i]->memory;
    if (workspace > 0 && !lie_apart(own, x)) return false;
    for (size_t k = 0; call.operation->tensors[i].is_written() && k < call.tensors.size(); ++k)
      if (k != i && call.tensors[k] && call.tensors[k]->memory.address != x.address &&
          !lie_apart(x, call.tensors[k]->memory))
        return false;
  }
  return true;
}

// Describes a call, such as "softmax x bf16 1000 x 4096, y bf16 1000 x 4096".
std::string described(const RowCall& call) {
  if (!call.operation) return "an operation on rows";
  std::string text = call.operation->name;
  for (size_t i = 0; i < std::min(call.tensors.size(), call.operation->tensors.size()); ++i) {
    if (!call.tensors[i]) continue;
    std::string extents;
    for (const int64_t extent : call.tensors[i]->extents)
      extents += (extents.empty() ? "" : " x ") + std::to_string(extent);
    text += fmt::format("{} {} {} {}", text == call.operation->name ? "" : ",",
                        call.operation->tensors[i].name, name(call.tensors[i]->type), extents);
  }
  return text;
}

struct KeptCall {
  PreparedCall launches;
  size_t workspace;  // bytes of the workspace
};

}  // namespace

struct Rows::State {
  State(runtime::Device& the_device, const CallOptions& options)
      : device(the_device), compiler(compiler_for(the_device, options.compiler)), sums(row_sums()) {}

  runtime::LoadedKernel& kernel(const RowProblem& problem) {
    return kernels.get(RowKey{problem.operation, problem.types}, problem.tile, [&] {
      const WatchedKernels watched;
      Kernel built = problem.operation->build(problem);
      // Rare combinations of types and tensors spill a few bytes, which the caller cannot prevent.
      for (const char* advisory : {"spills", "stack"}) built.waive(advisory);
      return std::make_unique<runtime::LoadedKernel>(load(device, compiler, std::move(built)));
    });
  }
  // Returns the kernel that adds up the parts of the call's summed results.
  runtime::LoadedKernel& sums_kernel(const RowCall& call, const CheckedRows& c) {
    RowProblem problem{&sums, {}, {.vector = c.columns() % 4 == 0 ? 4 : 1, .ctas = c.problem.tile.ctas}};
    for (const size_t i : summed(*call.operation, c.problem.types)) {
      problem.types.emplace_back(DType::f32);
      problem.types.emplace_back(call.tensors[i]->type);
    }
    problem.types.resize(sums.tensors.size());
    return kernel(problem);
  }
  int64_t parts(const CheckedRows& c) const {
    if (c.is_empty) return 0;
    return row_parts(c.problem.tile, c.rows(), device.properties().multiprocessors);
  }
  size_t bytes(const CheckedRows& c) const {
    return summed(*c.problem.operation, c.problem.types).size() * bytes_of_part(c, parts(c));
  }

  void call(const RowCall& call, Where where);

  // Queues a launch, and adds it to the prepared call `keeps` if this is not null.
  void queue(runtime::LoadedKernel& kernel, runtime::LaunchOptions options, SourcedArguments& arguments,
             PreparedCall* keeps, Where where) {
    kernel.launch(options, arguments.list(), where);
    if (keeps) keeps->add(kernel, options, arguments, where);
  }

  void launch(const RowCall& call, const CheckedRows& c, std::span<const uint64_t> sources,
              PreparedCall* keeps, Where where) {
    const RowOperation& o = *call.operation;
    size_t strides = 0;
    for (const RowTensor& t : o.tensors) strides += t.strided.size();
    SourcedArguments arguments(sources, o.tensors.size() + c.sizes.size() + strides + o.numbers.size());
    runtime::Address next = call.workspace.address;
    const size_t part = bytes_of_part(c, parts(c));
    for (size_t i = 0; i < o.tensors.size(); ++i) {
      if (!c.problem.types[i]) continue;
      const bool is_summed = o.tensors[i].is_summed;
      const runtime::View memory = is_summed ? runtime::View{next, part} : call.tensors[i]->memory;
      if (is_summed) next += part;
      arguments.add(is_summed ? SourcedArguments::kWorkspace : kFirstTensor + i,
                    [&] { return runtime::pointer(memory, *c.problem.types[i]); });
    }
    for (const std::string& word : o.sizes())
      arguments.add(SourcedArguments::kNone,
                    [&] { return runtime::scalar(static_cast<uint32_t>(c.sizes.at(word))); });
    for (size_t i = 0; i < o.tensors.size(); ++i)
      for (size_t d = 0; d < o.tensors[i].strided.size(); ++d)
        arguments.add(SourcedArguments::kNone,
                      [&] { return runtime::scalar(static_cast<uint64_t>(call.tensors[i]->stride(d))); });
    for (size_t i = 0; i < o.numbers.size(); ++i)
      arguments.add(kFirstNumber + i, [&] {
        return runtime::scalar(call.numbers.empty() ? o.numbers[i].unsaid : call.numbers[i]);
      });
    queue(kernel(c.problem), {.stream = call.stream}, arguments, keeps, where);
  }

  void add_up(const RowCall& call, const CheckedRows& c, std::span<const uint64_t> sources,
              PreparedCall* keeps, Where where) {
    const std::vector<size_t> results = summed(*call.operation, c.problem.types);
    if (results.empty() || c.columns() == 0) return;
    SourcedArguments arguments(sources, 2 * results.size() + 2);
    runtime::Address next = call.workspace.address;
    const size_t part = bytes_of_part(c, parts(c));
    for (const size_t i : results) {
      arguments.add(SourcedArguments::kWorkspace, [&] { return runtime::pointer({next, part}, DType::f32); });
      arguments.add(kFirstTensor + i,
                    [&] { return runtime::pointer(call.tensors[i]->memory, call.tensors[i]->type); });
      next += part;
    }
    for (const int64_t extent : {parts(c), c.columns()})
      arguments.add(SourcedArguments::kNone, [&] { return runtime::scalar(static_cast<uint32_t>(extent)); });
    queue(sums_kernel(call, c), {.programmatic_dependent_launch = true, .stream = call.stream}, arguments,
          keeps, where);
  }

  runtime::Device& device;
  Compiler compiler;
  const RowOperation sums;
  KernelCache<RowKey, RowTile> kernels;
  ByForm<kFormWords, KeptCall> prepared;
  ByForm<kFormWords, size_t> workspaces;
};

Rows::Rows(runtime::Device& device, const CallOptions& options)
    : state_(std::make_unique<State>(device, options)) {}
Rows::~Rows() = default;

size_t Rows::workspace_bytes(const RowCall& call, Where where) {
  const bool kept = has_form(call);
  if (kept)
    if (const size_t* known = state_->workspaces.find(words_of(call))) return *known;
  const uint64_t number = state_->workspaces.number();
  const CheckedRows c = check_rows(call, where);
  if (!c.is_empty) state_->kernel(c.problem);
  if (!summed(*call.operation, c.problem.types).empty()) state_->sums_kernel(call, c);
  if (kept) state_->workspaces.add(words_of(call), state_->bytes(c), number);
  return state_->bytes(c);
}

void Rows::operator()(const RowCall& call, Where where) {
  told_call([&] { return described(call); }, [&] { state_->call(call, where); });
}

void Rows::State::call(const RowCall& call, Where where) {
  const bool kept = has_form(call);
  if (kept)
    if (const KeptCall* known = prepared.find(words_of(call)); known && lies_apart(call, known->workspace))
      return known->launches(sources_of(call), call.stream);
  const uint64_t number = prepared.number();
  const CheckedRows c = check_rows(call, where);
  check_row_addresses(call, where);
  std::vector<Operand> operands;
  for (size_t i = 0; i < call.tensors.size(); ++i)
    if (call.tensors[i])
      operands.push_back(one_row(call.operation->tensors[i].name.c_str(), DType::u8, call.tensors[i]->memory,
                                 static_cast<int64_t>(call.tensors[i]->memory.bytes)));
  std::vector<const Operand*> others;
  for (const Operand& x : operands) others.push_back(&x);
  const size_t workspace = bytes(c);
  check_workspace(call.operation->name.c_str(), call.workspace, workspace, others, where);
  const Sources sources = sources_of(call);
  PreparedCall launches;
  PreparedCall* const keeps = kept ? &launches : nullptr;
  if (!c.is_empty) launch(call, c, sources, keeps, where);
  add_up(call, c, sources, keeps, where);
  if (kept) prepared.add(words_of(call), {std::move(launches), workspace}, number);
}

}  // namespace ptxbuilder::kernels
