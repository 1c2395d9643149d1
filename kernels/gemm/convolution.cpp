#include "kernels/gemm/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/call/kept_forms.h"
#include "kernels/gemm/convolution_form.h"

namespace ptxbuilder::kernels {
namespace {

runtime::View behind(runtime::View memory, size_t bytes) {
  return {memory.address + bytes, memory.bytes - std::min<uint64_t>(memory.bytes, bytes)};
}

ConvolutionArguments with_form_addresses(ConvolutionArguments p) {
  size_t memory = 0;
  for (runtime::View* view : {&p.x.memory, &p.w.memory, &p.y.memory, &p.bias})
    view->address = form_address(memory++, view->address);
  return p;
}

constexpr size_t kImageRank = 4, kImageWords = 3 + 2 * kImageRank, kConvolutionWords = 12 + 3 * kImageWords;

// Returns whether the tensors clearly do not overlap. If false, convolution_form() examines them in detail.
bool is_plainly_apart(const ConvolutionArguments& p) {
  const runtime::View &x = p.x.memory, &w = p.w.memory, &y = p.y.memory;
  return lie_apart(x, w) && lie_apart(x, y) && lie_apart(w, y) &&
         (p.bias.address == 0 || lie_apart(y, p.bias));
}

bool has_words(const ConvolutionArguments& p) {
  return std::ranges::all_of(std::array{&p.x, &p.w, &p.y}, [](const ContractionTensor* t) {
    return t->extents.size() == kImageRank && (t->strides.empty() || t->strides.size() == kImageRank);
  });
}

auto words_of(const ConvolutionArguments& p) {
  return [&p](auto&& take) {
    size_t at = 0;
    const auto add = [&](auto value) { take(at++, static_cast<uint64_t>(value)); };
    add(static_cast<uint64_t>(p.result) << 32 | static_cast<uint64_t>(p.activation) << 16 |
        p.fast_accumulation);
    add(p.groups), add(p.bias.bytes), add(form_address(0, p.bias.address));
    for (const ConvolutionArguments::Along* along : {&p.along_h, &p.along_w})
      add(along->step), add(along->before), add(along->behind), add(along->spread);
    for (const ContractionTensor* t : {&p.x, &p.w, &p.y}) {
      add(static_cast<uint64_t>(t->type) << 1 | uint64_t{t->strides.empty()});
      add(t->memory.bytes), add(form_address(0, t->memory.address));
      for (size_t i = 0; i < kImageRank; ++i) add(t->extents[i]), add(t->strides.empty() ? 0 : t->strides[i]);
    }
  };
}

}  // namespace

class Convolution::State {
 public:
  State(runtime::Device& device, MatmulOptions options)
      : device_(device),
        packer_(device, options.compiler),
        copier_(device, options.compiler),
        matmul_(device, std::move(options)) {}

  void run(const ConvolutionArguments& p, Where where) {
    const Form form = form_of(p, where);
    check_workspace(p, bytes_of(*form, p, where), where);
    const ContractionTensor& result = result_of(p);
    if (form->fills) {
      size_t bytes = static_cast<size_t>(size_of(result.type));
      for (const int64_t extent : result.extents) bytes *= static_cast<size_t>(extent);
      device_.queue_fill(result.memory.address, 0, bytes, p.stream);
    }
    const Addresses addresses = addresses_of(p, p.workspace.address);
    for (const ConvolutionProduct& one : form->products) {
      for (const PackedPixels& copy : one.ahead) packer_(addresses.moved(copy), p.stream);
      matmul_(product_of(one, p, p.workspace), where);
      for (const PermutedCopyForm& copy : one.behind) copier_(addresses.moved(copy), p.stream);
    }
  }
  size_t workspace_bytes(const ConvolutionArguments& p, Where where) {
    const Form form = form_of(p, where);
    for (const ConvolutionProduct& one : form->products) {
      for (const PackedPixels& copy : one.ahead) packer_.prepare(copy);
      for (const PermutedCopyForm& copy : one.behind) copier_.prepare(copy);
    }
    return bytes_of(*form, p, where);
  }
  std::string explain(const ConvolutionArguments& p, Where where) {
    const Form form = form_of(p, where);
    if (form->products.empty()) return form->fills ? "the result is zero" : "there is nothing to do";
    const ConvolutionProduct& first = form->products.front();
    const MatmulArguments q = product_of(first, p, kNowhere);
    const size_t bytes = bytes_of(*form, p, where);
    return fmt::format("{} products, the first of {} x {} x {}{}, tile {}{}{}", form->products.size(), q.m,
                       q.n, q.k,
                       !first.modes                                 ? ""
                       : first.modes->windows_of == WindowsOf::none ? " with lines of A"
                       : first.modes->windows_of == WindowsOf::a    ? " with windows of A"
                                                                    : " with windows of B",
                       text(matmul_.tile(q, where)), form->fills ? ", after zeros" : "",
                       bytes == 0 ? "" : fmt::format(", workspace {} B", bytes));
  }
  void tune(const ConvolutionArguments& p, Where where) {
    const Form form = form_of(p, where);
    check_workspace(p, bytes_of(*form, p, where), where);
    for (const ConvolutionProduct& one : form->products) matmul_.tune(product_of(one, p, p.workspace), where);
  }

 private:
  using Form = std::shared_ptr<const ConvolutionForm>;
  using Addresses = CallAddresses<5>;  // indexed by ConvolutionMemory
  // A placeholder for the workspace when only its size is requested. No memory has this address.
  static constexpr runtime::View kNowhere = {kTma, 0};

  static Addresses addresses_of(const ConvolutionArguments& p, runtime::Address workspace) {
    return {{p.x.memory.address, p.w.memory.address, p.y.memory.address, p.bias.address, workspace}};
  }
  Form form_of(const ConvolutionArguments& p, Where where) {
    const bool keeps = has_words(p) && is_plainly_apart(p);
    return known_.get(keeps, words_of(p), [&] {
      static_cast<void>(convolution_form(p, where));  // throws an Error with the caller's addresses
      ConvolutionForm form = convolution_form(with_form_addresses(p), where);
      for (ConvolutionProduct& one : form.products)
        if (one.modes && keeps) one.modes->number = next_number_of_calls();
      return form;
    });
  }
  static const ContractionTensor& result_of(const ConvolutionArguments& p) {
    return p.result == ConvolutionResult::y ? p.y : p.result == ConvolutionResult::x ? p.x : p.w;
  }
  // Returns the arguments of a product, with the caller's addresses. The product's own workspace follows the
  // copies in the caller's workspace.
  static MatmulArguments product_of(const ConvolutionProduct& one, const ConvolutionArguments& p,
                                    runtime::View workspace) {
    const Addresses addresses = addresses_of(p, workspace.address);
    MatmulArguments q = one.product;
    if (one.modes) q.modes = &*one.modes;
    for (runtime::View* memory : {&q.a.memory, &q.b.memory, &q.d.memory, &q.bias})
      *memory = addresses(*memory);
    q.workspace = behind(workspace, one.scratch);
    q.stream = p.stream;
    return q;
  }
  // Returns the size of the workspace in bytes. The products run one after the other, so they share the same
  // workspace.
  size_t bytes_of(const ConvolutionForm& form, const ConvolutionArguments& p, Where where) {
    size_t most = 0;
    for (const ConvolutionProduct& one : form.products)
      most = std::max(most, one.scratch + matmul_.workspace_bytes(product_of(one, p, kNowhere), where));
    return most;
  }
  static void check_workspace(const ConvolutionArguments& p, size_t bytes, Where where) {
    if (is_sound_workspace(p.workspace, bytes, {p.x.memory, p.w.memory, p.y.memory})) return;
    std::array<Operand, 3> operands;
    std::array<const Operand*, 3> others = {};
    const std::array<const ContractionTensor*, 3> given = {&p.x, &p.w, &p.y};
    for (size_t i = 0; i < given.size(); ++i) {
      operands[i] = one_row(std::array{"x", "w", "y"}[i], DType::u8, given[i]->memory,
                            static_cast<int64_t>(given[i]->memory.bytes));
      others[i] = &operands[i];
    }
    kernels::check_workspace("convolution", p.workspace, bytes, others, where);
  }

  runtime::Device& device_;
  PixelPacker packer_;
  PermutedCopier copier_;
  Matmul matmul_;
  KeptForms<kConvolutionWords, ConvolutionForm> known_;
};

Convolution::Convolution(runtime::Device& device, MatmulOptions options)
    : state_(std::make_unique<State>(device, std::move(options))) {}
Convolution::~Convolution() = default;
Convolution::Convolution(Convolution&&) noexcept = default;
Convolution& Convolution::operator=(Convolution&&) noexcept = default;

void Convolution::operator()(const ConvolutionArguments& arguments, Where where) {
  CallersLine line(where);
  state_->run(arguments, where);
}
size_t Convolution::workspace_bytes(const ConvolutionArguments& arguments, Where where) {
  CallersLine line(where);
  return state_->workspace_bytes(arguments, where);
}
std::string Convolution::explain(const ConvolutionArguments& arguments, Where where) {
  CallersLine line(where);
  return state_->explain(arguments, where);
}
void Convolution::tune(const ConvolutionArguments& arguments, Where where) {
  CallersLine line(where);
  state_->tune(arguments, where);
}

}  // namespace ptxbuilder::kernels
