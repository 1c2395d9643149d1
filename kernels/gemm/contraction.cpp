#include "kernels/gemm/contraction.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <tuple>

#include "kernels/call/operand.h"
#include "kernels/call/permuted_copy.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int64_t kMostKept = 1 << 12;  // forms; then all are forgotten

TensorForm form_of(const ContractionTensor& x) {
  TensorForm form{x.type, x.extents, x.strides, x.memory.address % kTma == 0};
  if (!x.strides.empty() || x.extents.empty()) return form;
  form.strides.resize(x.extents.size());
  int64_t stride = 1;
  for (size_t i = x.extents.size(); i-- > 0;) {
    form.strides[i] = stride;
    stride = stride_of(std::max<int64_t>(x.extents[i], 1), stride);
  }
  return form;
}

size_t index_of(ContractionOperand which) { return static_cast<size_t>(which); }

}  // namespace

class Contraction::State {
 public:
  State(runtime::Device& device, MatmulOptions options)
      : copier_(device, options.compiler), matmul_(device, std::move(options)) {}

  void run(const ContractionArguments& p, Where where) {
    const Call call = called(p, where);
    if (call.form->is_empty) return;
    const size_t bytes = call.copied_bytes + matmul_.workspace_bytes(call.product, where);
    const std::array<Operand, 3> operands = {all_of("A", p.a), all_of("B", p.b), all_of("D", p.d)};
    const std::array<const Operand*, 3> others = {&operands[0], &operands[1], &operands[2]};
    check_workspace("contraction", p.workspace, bytes, others, where);
    for (const PermutedCopy& copy : call.first) copier_(copy, p.stream);
    matmul_(call.product, where);
    for (const PermutedCopy& copy : call.behind) copier_(copy, p.stream);
  }
  size_t workspace_bytes(const ContractionArguments& p, Where where) {
    const Call call = called(p, where);
    if (call.form->is_empty) return 0;
    for (const auto* copies : {&call.first, &call.behind})
      for (const PermutedCopy& copy : *copies) copier_.prepare(copy);
    return call.copied_bytes + matmul_.workspace_bytes(call.product, where);
  }
  std::string explain(const ContractionArguments& p, Where where) {
    const Call call = called(p, where);
    if (call.form->is_empty) return "nothing is to be done";
    return fmt::format("{}; tile {}", call.form->text, text(matmul_.tile(call.product, where)));
  }
  void tune(const ContractionArguments& p, Where where) {
    const Call call = called(p, where);
    if (!call.form->is_empty) matmul_.tune(call.product, where);
  }

 private:
  // The product and the copies of one call, whose addresses it has.
  struct Call {
    std::shared_ptr<const ContractionForm> form;
    MatmulArguments product;
    std::vector<PermutedCopy> first, behind;
    size_t copied_bytes = 0;
  };

  std::shared_ptr<const ContractionForm> form(const ContractionArguments& p,
                                              const ContractionTensors& tensors, Where where) {
    Key key{p.subscripts, {}};
    std::vector<int64_t>& words = key.second;
    words.push_back(p.alpha == 0);
    for (const TensorForm& x : tensors) {
      words.push_back(static_cast<int64_t>(x.type) << 1 | x.is_aligned);
      words.push_back(static_cast<int64_t>(x.extents.size()));
      words.insert(words.end(), x.extents.begin(), x.extents.end());
      words.insert(words.end(), x.strides.begin(), x.strides.end());
    }
    const std::lock_guard lock(mutex_);
    if (const auto known = forms_.find(key); known != forms_.end()) return known->second;
    if (forms_.size() >= kMostKept) forms_.clear();
    auto made =
        std::make_shared<const ContractionForm>(contraction(p.subscripts, tensors, p.alpha == 0, where));
    return forms_.emplace(std::move(key), std::move(made)).first->second;
  }

  Call called(const ContractionArguments& p, Where where) {
    const std::array<const ContractionTensor*, 3> given = {&p.a, &p.b, &p.d};
    Call call;
    call.form = form(p, {form_of(p.a), form_of(p.b), form_of(p.d)}, where);
    const ContractionForm& f = *call.form;
    if (f.is_empty) return call;
    std::array<runtime::View, 3> memory = {p.a.memory, p.b.memory, p.d.memory};
    for (size_t i = 0; i < 3; ++i) check_bytes(*given[i], "ABD"[i], where);
    for (const ContractionCopy& copy : f.copies) {
      const size_t i = index_of(copy.operand),
                   bytes = static_cast<size_t>(copy.elements) * size_of(given[i]->type);
      const runtime::View near = {p.workspace.address + call.copied_bytes, bytes};
      call.copied_bytes += static_cast<size_t>(round_up(static_cast<int64_t>(bytes), kPartAlignment));
      PermutedCopy one{size_of(given[i]->type), {}, memory[i], near};
      const bool is_read = copy.operand != ContractionOperand::d;
      for (const ContractionCopy::Mode& mode : copy.modes)
        one.modes.push_back(is_read ? PermutedCopy::Mode{mode.extent, mode.given, mode.near}
                                    : PermutedCopy::Mode{mode.extent, mode.near, mode.given});
      if (!is_read) std::swap(one.from, one.to);
      (is_read ? call.first : call.behind).push_back(std::move(one));
      memory[i] = near;
    }
    MatmulArguments& q = call.product;
    q.m = f.modes.m.extent(), q.n = f.modes.n.extent(), q.k = f.modes.k.extent(),
    q.batches = f.modes.batch.extent();
    q.a_k_major = f.a_k_major, q.b_k_major = f.b_k_major;
    const size_t a = f.exchanged ? 1 : 0;
    q.a = {.memory = memory[a], .type = given[a]->type};
    q.b = {.memory = memory[1 - a], .type = given[1 - a]->type};
    q.d = {.memory = memory[2], .type = p.d.type};
    q.alpha = p.alpha, q.fast_accumulation = p.fast_accumulation;
    q.workspace = {p.workspace.address + call.copied_bytes,
                   p.workspace.bytes - std::min(p.workspace.bytes, call.copied_bytes)};
    q.stream = p.stream;
    if (!f.is_plain()) {
      q.modes = &f.modes;
      return call;
    }
    // The rows of a stored matrix, and batches.
    const auto strides = [&](DeviceMatrix& x, const ModeList& rows, int64_t ProductMode::*stride) {
      if (rows.size() > 0) x.stride = rows[0].*stride;
      if (f.modes.batch.size() > 0) x.batch_stride = f.modes.batch[0].*stride;
    };
    strides(q.a, q.a_k_major ? f.modes.m : f.modes.k, &ProductMode::a);
    strides(q.b, q.b_k_major ? f.modes.n : f.modes.k, &ProductMode::b);
    strides(q.d, f.modes.m, &ProductMode::d);
    return call;
  }

  // The operand reaches from the first element to the last, with what lies between.
  static Operand all_of(const char* name, const ContractionTensor& x) {
    const TensorForm form = form_of(x);
    int64_t last = 0;
    for (size_t i = 0; i < form.extents.size(); ++i) last += (form.extents[i] - 1) * form.strides[i];
    return one_row(name, x.type, x.memory, last + 1);
  }
  // Copies are made before the product checks its own.
  static void check_bytes(const ContractionTensor& x, char name, Where where) {
    const TensorForm form = form_of(x);
    __int128 last = 0;
    for (size_t i = 0; i < form.extents.size(); ++i) {
      if (form.extents[i] == 0) return;
      last += static_cast<__int128>(form.extents[i] - 1) * form.strides[i];
    }
    const __int128 bytes = (last + 1) * size_of(x.type);
    if (bytes > static_cast<__int128>(x.memory.bytes))
      throw Error(where, fmt::format("contraction: {} takes {} B, and its memory has {} B", name,
                                     static_cast<uint64_t>(bytes), x.memory.bytes));
    if (x.memory.address % static_cast<uint64_t>(size_of(x.type)) != 0)
      throw Error(where, fmt::format("contraction: {} at {:#x}, which is no multiple of an element's {} B",
                                     name, x.memory.address, size_of(x.type)));
  }

  using Key = std::pair<std::string, std::vector<int64_t>>;

  PermutedCopier copier_;
  Matmul matmul_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const ContractionForm>> forms_;
};

Contraction::Contraction(runtime::Device& device, MatmulOptions options)
    : state_(std::make_unique<State>(device, std::move(options))) {}
Contraction::~Contraction() = default;
Contraction::Contraction(Contraction&&) noexcept = default;
Contraction& Contraction::operator=(Contraction&&) noexcept = default;

void Contraction::operator()(const ContractionArguments& arguments, Where where) {
  CallersLine line(where);
  state_->run(arguments, where);
}
size_t Contraction::workspace_bytes(const ContractionArguments& arguments, Where where) {
  CallersLine line(where);
  return state_->workspace_bytes(arguments, where);
}
std::string Contraction::explain(const ContractionArguments& arguments, Where where) {
  CallersLine line(where);
  return state_->explain(arguments, where);
}
void Contraction::tune(const ContractionArguments& arguments, Where where) {
  CallersLine line(where);
  state_->tune(arguments, where);
}

}  // namespace ptxbuilder::kernels
