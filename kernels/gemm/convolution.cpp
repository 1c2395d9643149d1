#include "kernels/gemm/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/call/operand.h"
#include "kernels/gemm/convolution_form.h"

namespace ptxbuilder::kernels {
namespace {

runtime::View behind(runtime::View memory, size_t bytes) {
  return {memory.address + bytes, memory.bytes - std::min<uint64_t>(memory.bytes, bytes)};
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
    ConvolutionForm form = convolution_form(p, where);
    check_workspace(p, bytes_of(form, where), where);
    const ContractionTensor& result = result_of(p);
    if (form.fills) {
      size_t bytes = static_cast<size_t>(size_of(result.type));
      for (const int64_t extent : result.extents) bytes *= static_cast<size_t>(extent);
      device_.queue_fill(result.memory.address, 0, bytes, p.stream);
    }
    for (ConvolutionProduct& one : form.products) {
      for (PackedPixels& copy : one.ahead) {
        copy.to = placed(copy.to, p.workspace);
        packer_(copy, p.stream);
      }
      matmul_(product_of(one, p.workspace, p.stream), where);
      if (!one.behind) continue;
      one.behind->from = placed(one.behind->from, p.workspace);
      copier_(*one.behind, p.stream);
    }
  }
  size_t workspace_bytes(const ConvolutionArguments& p, Where where) {
    ConvolutionForm form = convolution_form(p, where);
    for (const ConvolutionProduct& one : form.products) {
      for (const PackedPixels& copy : one.ahead) packer_.prepare(copy);
      if (one.behind) copier_.prepare(*one.behind);
    }
    return bytes_of(form, where);
  }
  std::string explain(const ConvolutionArguments& p, Where where) {
    ConvolutionForm form = convolution_form(p, where);
    if (form.products.empty()) return form.fills ? "the result is zero" : "nothing is to be done";
    ConvolutionProduct& first = form.products.front();
    const MatmulArguments q = product_of(first, {}, {});
    const size_t bytes = bytes_of(form, where);
    return fmt::format("{} products, the first of {} x {} x {}{}, tile {}{}{}", form.products.size(), q.m,
                       q.n, q.k,
                       !first.modes                              ? ""
                       : first.modes->windows_of == WindowsOf::a ? " with windows of A"
                                                                 : " with windows of B",
                       text(matmul_.tile(q, where)), form.fills ? ", behind zeros" : "",
                       bytes == 0 ? "" : fmt::format(", workspace {} B", bytes));
  }
  void tune(const ConvolutionArguments& p, Where where) {
    ConvolutionForm form = convolution_form(p, where);
    check_workspace(p, bytes_of(form, where), where);
    for (ConvolutionProduct& one : form.products) matmul_.tune(product_of(one, p.workspace, p.stream), where);
  }

 private:
  static const ContractionTensor& result_of(const ConvolutionArguments& p) {
    return p.result == ConvolutionResult::y ? p.y : p.result == ConvolutionResult::x ? p.x : p.w;
  }
  // What lies in the workspace begins there so many bytes behind its start.
  static runtime::View placed(runtime::View near, runtime::View workspace) {
    return {workspace.address + near.address, near.bytes};
  }
  // A product has what copies leave of the workspace to work with.
  static MatmulArguments product_of(const ConvolutionProduct& one, runtime::View workspace,
                                    runtime::Stream stream) {
    MatmulArguments q = one.product;
    if (one.modes) q.modes = &*one.modes;
    if (one.a_is_near) q.a.memory = placed(q.a.memory, workspace);
    if (one.b_is_near) q.b.memory = placed(q.b.memory, workspace);
    if (one.d_is_near) q.d.memory = placed(q.d.memory, workspace);
    q.workspace = behind(workspace, one.scratch);
    q.stream = stream;
    return q;
  }
  // They come one behind the other, so that one takes what another has left.
  size_t bytes_of(const ConvolutionForm& form, Where where) {
    size_t most = 0;
    for (const ConvolutionProduct& one : form.products)
      most = std::max(most, one.scratch + matmul_.workspace_bytes(product_of(one, {}, {}), where));
    return most;
  }
  static void check_workspace(const ConvolutionArguments& p, size_t bytes, Where where) {
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
