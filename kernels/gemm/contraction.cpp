#include "kernels/gemm/contraction.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/call/kept_forms.h"
#include "kernels/call/permuted_copy.h"

namespace ptxbuilder::kernels {
namespace {

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

// Returns the number of elements from the first to the last element of a tensor, including gaps.
__int128 reach_of(const ContractionTensor& x) {
  const TensorForm form = form_of(x);
  __int128 last = 0;
  for (size_t i = 0; i < form.extents.size(); ++i) {
    if (form.extents[i] == 0) return 0;
    last += static_cast<__int128>(form.extents[i] - 1) * form.strides[i];
  }
  return last + 1;
}

size_t index_of(ContractionOperand which) { return static_cast<size_t>(which); }

// The form of a call is cached only if the letters and dimensions of the call fit into these numbers of
// words.
constexpr size_t kLetterWords = 4, kMostRank = 8, kTensorWords = 3 + 2 * kMostRank;
constexpr size_t kFormWords = kLetterWords + 1 + 3 * kTensorWords;

bool has_words(const ContractionArguments& p) {
  bool fit = p.subscripts.size() <= kLetterWords * sizeof(uint64_t);
  for (const ContractionTensor* x : {&p.a, &p.b, &p.d})
    fit &= x->extents.size() <= kMostRank && (x->strides.empty() || x->strides.size() == x->extents.size());
  return fit;
}

auto words_of(const ContractionArguments& p) {
  return [&p](auto&& take) {
    for (size_t at = 0; at < kLetterWords; ++at) {
      uint64_t word = 0;
      const size_t first = at * sizeof word, size = p.subscripts.size();
      if (first < size) std::memcpy(&word, &p.subscripts[first], std::min(sizeof word, size - first));
      take(at, word);
    }
    take(kLetterWords, uint64_t{p.alpha == 0});
    size_t at = kLetterWords + 1;
    for (const ContractionTensor* x : {&p.a, &p.b, &p.d}) {
      const size_t rank = x->extents.size();
      take(at, static_cast<uint64_t>(x->type) << 16 | rank << 8 | uint64_t{x->strides.empty()});
      take(at + 1, x->memory.bytes), take(at + 2, form_address(0, x->memory.address));
      for (size_t i = 0; i < kMostRank; ++i) {
        take(at + 3 + i, i < rank ? static_cast<uint64_t>(x->extents[i]) : 0);
        take(at + 3 + kMostRank + i, i < x->strides.size() ? static_cast<uint64_t>(x->strides[i]) : 0);
      }
      at += kTensorWords;
    }
  };
}

}  // namespace

class Contraction::State {
 public:
  State(runtime::Device& device, MatmulOptions options)
      : copier_(device, options.compiler), matmul_(device, std::move(options)) {}

  void run(const ContractionArguments& p, Where where) {
    const std::shared_ptr<const Known> known = found(p, where);
    if (known->form.is_empty) return;
    const MatmulArguments product = known->product_of(p);
    const size_t bytes = known->copied_bytes + matmul_.workspace_bytes(product, where);
    if (!is_sound_workspace(p.workspace, bytes, {p.a.memory, p.b.memory, p.d.memory})) {
      const std::array<Operand, 3> operands = {all_of("A", p.a), all_of("B", p.b), all_of("D", p.d)};
      const std::array<const Operand*, 3> others = {&operands[0], &operands[1], &operands[2]};
      check_workspace("contraction", p.workspace, bytes, others, where);
    }
    const Addresses addresses = addresses_of(p);
    for (const PermutedCopyForm& copy : known->first) copier_(addresses.moved(copy), p.stream);
    matmul_(product, where);
    for (const PermutedCopyForm& copy : known->behind) copier_(addresses.moved(copy), p.stream);
  }
  size_t workspace_bytes(const ContractionArguments& p, Where where) {
    const std::shared_ptr<const Known> known = found(p, where);
    if (known->form.is_empty) return 0;
    return known->copied_bytes + matmul_.workspace_bytes(known->product_of(p), where);
  }
  std::string explain(const ContractionArguments& p, Where where) {
    const std::shared_ptr<const Known> known = found(p, where);
    if (known->form.is_empty) return "there is nothing to do";
    return fmt::format("{}; tile {}", known->form.text, text(matmul_.tile(known->product_of(p), where)));
  }
  void tune(const ContractionArguments& p, Where where) {
    const std::shared_ptr<const Known> known = found(p, where);
    if (!known->form.is_empty) matmul_.tune(known->product_of(p), where);
  }

 private:
  using Addresses = CallAddresses<4>;  // addresses of A, B, D and the workspace
  static constexpr size_t kWorkspace = 3;

  // Returns the addresses of a call. If only the size of the workspace is requested, a placeholder stands for
  // its address.
  static Addresses addresses_of(const ContractionArguments& p) {
    return {{p.a.memory.address, p.b.memory.address, p.d.memory.address,
             p.workspace.address ? p.workspace.address : kTma}};
  }

  // The cached properties of a call. They do not depend on its addresses, alpha, workspace or stream.
  struct Known {
    ContractionForm form;
    MatmulArguments product;
    std::vector<PermutedCopyForm> first, behind;  // copies before and after the product
    size_t copied_bytes = 0;

    MatmulArguments product_of(const ContractionArguments& p) const {
      const Addresses addresses = addresses_of(p);
      MatmulArguments q = product;
      for (DeviceMatrix* x : {&q.a, &q.b, &q.d}) x->memory = addresses(x->memory);
      q.modes = form.is_plain() ? nullptr : &form.modes;
      q.alpha = p.alpha, q.fast_accumulation = p.fast_accumulation;
      q.workspace = {p.workspace.address ? p.workspace.address + copied_bytes : 0,
                     p.workspace.bytes - std::min(p.workspace.bytes, copied_bytes)};
      q.stream = p.stream;
      return q;
    }
  };

  std::shared_ptr<const Known> found(const ContractionArguments& p, Where where) {
    return known_.get(has_words(p), words_of(p), [&] {
      Known made = make(p, where);
      for (const auto* copies : {&made.first, &made.behind})
        for (const PermutedCopyForm& copy : *copies) copier_.prepare(copy);
      return made;
    });
  }

  static Known make(const ContractionArguments& p, Where where) {
    const std::array<const ContractionTensor*, 3> given = {&p.a, &p.b, &p.d};
    Known known;
    known.form = contraction(p.subscripts, {form_of(p.a), form_of(p.b), form_of(p.d)}, p.alpha == 0, where);
    const ContractionForm& f = known.form;
    if (f.is_empty) return known;
    std::array<runtime::View, 3> memory;
    for (size_t i = 0; i < 3; ++i) {
      check_bytes(*given[i], "ABD"[i], where);
      memory[i] = {form_address(i, given[i]->memory.address), given[i]->memory.bytes};
    }
    for (const ContractionCopy& copy : f.copies) {
      const size_t i = index_of(copy.operand),
                   bytes = static_cast<size_t>(copy.elements) * size_of(given[i]->type);
      const runtime::View near = {form_address(kWorkspace, kTma) + known.copied_bytes, bytes};
      const bool is_read = copy.operand != ContractionOperand::d;
      PermutedCopy one;
      one.element_bytes = size_of(given[i]->type);
      one.from = is_read ? memory[i] : near, one.to = is_read ? near : memory[i];
      for (const ContractionCopy::Mode& mode : copy.modes)
        one.modes.push_back(is_read ? PermutedCopy::Mode{mode.extent, mode.given, mode.near}
                                    : PermutedCopy::Mode{mode.extent, mode.near, mode.given});
      (is_read ? known.first : known.behind).push_back(kernels::form_of(one));
      memory[i] = near;
      known.copied_bytes += static_cast<size_t>(round_up(static_cast<int64_t>(bytes), kPartAlignment));
    }
    MatmulArguments& q = known.product;
    const size_t a = f.exchanged ? 1 : 0;
    q.a.memory = memory[a], q.b.memory = memory[1 - a], q.d.memory = memory[2];
    q.m = f.modes.m.extent(), q.n = f.modes.n.extent(), q.k = f.modes.k.extent(),
    q.batches = f.modes.batch.extent();
    q.a_k_major = f.a_k_major, q.b_k_major = f.b_k_major;
    q.a.type = given[a]->type, q.b.type = given[1 - a]->type;
    q.d.type = p.d.type;
    if (!f.is_plain()) return known;
    // Sets the strides between the rows and between the batches of a matrix.
    const auto strides = [&](DeviceMatrix& x, const ModeList& rows, int64_t ProductMode::*stride) {
      if (rows.size() > 0) x.stride = rows[0].*stride;
      if (f.modes.batch.size() > 0) x.batch_stride = f.modes.batch[0].*stride;
    };
    strides(q.a, q.a_k_major ? f.modes.m : f.modes.k, &ProductMode::a);
    strides(q.b, q.b_k_major ? f.modes.n : f.modes.k, &ProductMode::b);
    strides(q.d, f.modes.m, &ProductMode::d);
    return known;
  }

  static Operand all_of(const char* name, const ContractionTensor& x) {
    return one_row(name, x.type, x.memory, static_cast<int64_t>(reach_of(x)));
  }
  // Checks the memory of a tensor. The product's own checks would come too late, since tensors are copied
  // before the product.
  static void check_bytes(const ContractionTensor& x, char name, Where where) {
    const __int128 bytes = reach_of(x) * size_of(x.type);
    if (bytes == 0) return;
    if (bytes > static_cast<__int128>(x.memory.bytes))
      throw Error(where, fmt::format("contraction: {} needs {} B, but its memory has {} B", name,
                                     static_cast<uint64_t>(bytes), x.memory.bytes));
    if (x.memory.address % static_cast<uint64_t>(size_of(x.type)) != 0)
      throw Error(
          where,
          fmt::format("contraction: {} is at {:#x}; its address must be a multiple of an element's {} B",
                      name, x.memory.address, size_of(x.type)));
  }

  PermutedCopier copier_;
  Matmul matmul_;
  KeptForms<kFormWords, Known> known_;
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
