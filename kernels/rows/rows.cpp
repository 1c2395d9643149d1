#include "kernels/rows/rows.h"

#include "kernels/call/kernel_cache.h"
#include "kernels/call/operand.h"
#include "kernels/rows/operations.h"
#include "kernels/rows/row_check.h"
#include "runtime/loaded_kernel.h"

namespace ptxbuilder::kernels {
namespace {

// A kernel is made for this and a tile.
struct RowForm {
  const RowOperation* operation;
  std::vector<std::optional<DType>> types;
  friend bool operator==(const RowForm&, const RowForm&) = default;
};

size_t bytes_of_part(const CheckedRows& c, int64_t parts) {
  return static_cast<size_t>(round_up(parts * c.columns() * size_of(DType::f32), kPartAlignment));
}

}  // namespace

struct Rows::State {
  State(runtime::Device& the_device, const CallOptions& options)
      : device(the_device), compiler(compiler_for(the_device, options.compiler)), sums(row_sums()) {}

  runtime::LoadedKernel& kernel(const RowProblem& problem) {
    return kernels.get(RowForm{problem.operation, problem.types}, problem.tile, [&] {
      Kernel built = problem.operation->build(problem);
      // A caller can do nothing about the few bytes that a rare mix of types and tensors spills.
      for (const char* advisory : {"spills", "stack"}) built.waive(advisory);
      return std::make_unique<runtime::LoadedKernel>(load(device, compiler, std::move(built)));
    });
  }
  // It gives the kernel that adds up the parts of a result.
  runtime::LoadedKernel& sums_kernel(DType type) { return kernel({&sums, {DType::f32, type}, {}}); }
  int64_t parts(const CheckedRows& c) const {
    if (c.is_empty) return 0;
    return row_parts(c.problem.tile, c.problem.operation->limits, c.rows(),
                     device.properties().multiprocessors);
  }
  size_t count_of_sums(const CheckedRows& c) const {
    size_t count = 0;
    for (size_t i = 0; i < c.problem.types.size(); ++i)
      count += c.problem.types[i] && c.problem.operation->tensors[i].is_summed;
    return count;
  }
  size_t bytes(const CheckedRows& c) const { return count_of_sums(c) * bytes_of_part(c, parts(c)); }

  void launch(const RowCall& call, const CheckedRows& c, Where where) {
    const RowOperation& o = *call.operation;
    runtime::ArgumentList arguments(o.tensors.size() + c.sizes.size() + o.numbers.size());
    runtime::Address next = call.workspace.address;
    for (size_t i = 0; i < o.tensors.size(); ++i) {
      if (!c.problem.types[i]) continue;
      const size_t part = bytes_of_part(c, parts(c));
      const runtime::View memory =
          o.tensors[i].is_summed ? runtime::View{next, part} : call.tensors[i]->memory;
      if (o.tensors[i].is_summed) next += part;
      arguments.add([&] { return runtime::pointer(memory, *c.problem.types[i]); });
    }
    for (const std::string& word : o.sizes())
      arguments.add([&] { return runtime::scalar(static_cast<uint32_t>(c.sizes.at(word))); });
    for (size_t i = 0; i < o.numbers.size(); ++i)
      arguments.add(
          [&] { return runtime::scalar(call.numbers.empty() ? o.numbers[i].unsaid : call.numbers[i]); });
    kernel(c.problem).launch({.stream = call.stream}, arguments, where);
  }

  void add_up(const RowCall& call, const CheckedRows& c, Where where) {
    runtime::Address next = call.workspace.address;
    const size_t part = bytes_of_part(c, parts(c));
    for (size_t i = 0; i < c.problem.types.size(); ++i) {
      if (!c.problem.types[i] || !call.operation->tensors[i].is_summed || c.columns() == 0) continue;
      const RowOperand& to = *call.tensors[i];
      sums_kernel(to.type).launch(
          {.programmatic_dependent_launch = true, .stream = call.stream},
          {runtime::pointer({next, part}, DType::f32), runtime::pointer(to.memory, to.type),
           runtime::scalar(static_cast<uint32_t>(parts(c))),
           runtime::scalar(static_cast<uint32_t>(c.columns()))},
          where);
      next += part;
    }
  }

  runtime::Device& device;
  Compiler compiler;
  const RowOperation sums;
  KernelCache<RowForm, RowTile> kernels;
};

Rows::Rows(runtime::Device& device, const CallOptions& options)
    : state_(std::make_unique<State>(device, options)) {}
Rows::~Rows() = default;

size_t Rows::workspace_bytes(const RowCall& call, Where where) {
  const CheckedRows c = check_rows(call, where);
  if (!c.is_empty) state_->kernel(c.problem);
  for (size_t i = 0; i < c.problem.types.size(); ++i)
    if (c.problem.types[i] && call.operation->tensors[i].is_summed)
      state_->sums_kernel(call.tensors[i]->type);
  return state_->bytes(c);
}

void Rows::operator()(const RowCall& call, Where where) {
  const CheckedRows c = check_rows(call, where);
  check_row_addresses(call, where);
  std::vector<Operand> operands;
  for (size_t i = 0; i < call.tensors.size(); ++i)
    if (call.tensors[i])
      operands.push_back(one_row(call.operation->tensors[i].name.c_str(), DType::u8, call.tensors[i]->memory,
                                 static_cast<int64_t>(call.tensors[i]->memory.bytes)));
  std::vector<const Operand*> others;
  for (const Operand& x : operands) others.push_back(&x);
  check_workspace(call.operation->name.c_str(), call.workspace, state_->bytes(c), others, where);
  if (!c.is_empty) state_->launch(call, c, where);
  state_->add_up(call, c, where);
}

}  // namespace ptxbuilder::kernels
