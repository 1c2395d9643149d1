// Implements quantization to e4m3. Every 128 elements of a row or a column share a scale, which maps their
// largest magnitude to the largest e4m3 number. Products with block scales accept such operands.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/rows/e4m3_scale.h"
#include "kernels/rows/element.h"
#include "kernels/rows/operations.h"
#include "kernels/rows/row.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kBlock = kScaledBlock;

enum class Form : uint8_t { of_rows, gated, of_columns };

// Returns the number of lines (rows or columns) that a CTA processes. The gated form reads two halves, and
// thus needs twice as many registers per line.
constexpr int lines_of(Form form) { return form == Form::gated ? 32 : 64; }

template <class T>
class Quantizer {
 public:
  Quantizer(Kernel& k, const Parameters& p, Form form, int vector)
      : k_(k),
        p_(p),
        form_(form),
        lines_(lines_of(form)),
        vector_(std::min(vector, 8)),
        rows_(p.get<u32>("rows")),
        columns_(p.get<u32>("columns")),
        layout_(strided({lines_, kBlock}, vector_)) {}

  void operator()() const {
    const bool turned = form_ == Form::of_columns;
    const u32 lines = turned ? columns_ : rows_, length = turned ? rows_ : columns_;
    const u32 groups = ceil_div(lines, lines_), block = ctaid_x() / groups,
              line = ctaid_x() % groups * lines_;
    const RegisterTile<f32> x = elements(line, block * kBlock);
    const RegisterTile<f32> most = max(reduce_rows(Reduction::max, abs(x)), f32(kLeastGreatest));
    const RegisterTile<f32> scale = scale_of(most);
    const RegisterTile<f32> factor = f32(1) / scale;
    const GlobalTensor q(p_.get<gptr<e4m3>>("q"), {lines, length});
    store(q.multiples_of(vector_).tile(line, block * kBlock), astype<e4m3>(x * broadcast(factor, layout_)));
    const GlobalTensor scales(p_.get<gptr<f32>>("scale") + u64(block) * u64(lines), {lines});
    store(scales.as_col().tile(line, 0), scale);
  }

 private:
  // Returns the scale, rounded up to a power of two if this is requested.
  RegisterTile<f32> scale_of(const RegisterTile<f32>& most) const {
    const pred rounds = p_.get<f32>("power_of_two") != f32(0);
    return RegisterTile<f32>::of(most.layout(), [&](int i) {
      const f32 exact = most.value(i) * f32(1 / kGreatestE4m3);
      const f32 power = bit_cast<f32>((bit_cast<u32>(exact) + 0x7fffffu) & 0xff800000u);
      return select(rounds, power, exact);
    });
  }

  // Loads the elements of the CTA's lines, beginning at line `line` and at element `first` of each line.
  RegisterTile<f32> elements(u32 line, u32 first) const {
    const gptr<T> x = p_.get<gptr<T>>("x");
    if (form_ == Form::of_columns) {
      const SharedTile tile = k_.shared<T>({kBlock, lines_}, Swizzle128B, 1, "tile");
      const GlobalTensor all(x, {rows_, columns_});
      store(tile[0],
            load<T>(all.multiples_of(vector_).tile(first, line), strided({kBlock, lines_}, vector_)));
      sync_threads();
      return widened(layout_cast(load<T>(tile[0].transposed()), layout_));
    }
    if (form_ == Form::of_rows) return part(GlobalTensor(x, {rows_, columns_}), line, first);
    const auto half = [&](u32 begin) {
      return part(GlobalTensor(x + begin, {rows_, columns_}, {columns_ * 2, 1}), line, first);
    };
    const RegisterTile<f32> gate = half(0);
    const RegisterTile<f32> part_of = f32(1) + exp2(gate * f32(-kLog2E), Approx::yes);
    return gate * divide(RegisterTile<f32>(f32(1), layout_), part_of, Approx::yes) * half(columns_);
  }
  RegisterTile<f32> part(const auto& from, u32 line, u32 first) const {
    return widened(load<T>(from.multiples_of(vector_).tile(line, first), layout_));
  }

  Kernel& k_;
  const Parameters& p_;
  const Form form_;
  const int lines_;
  const int vector_;
  const u32 rows_, columns_;
  const RegisterLayout layout_;  // layout of the CTA's elements, with a row for each line
};

template <Form form>
Kernel quantize_kernel(const RowProblem& problem) {
  Kernel k(problem.operation->name);
  const Parameters p = declare_parameters(k, problem);
  k.threads(RegisterLayout::kThreads);
  const bool turned = form == Form::of_columns;
  k.grid(fmt::format("ceil_div({}, {}) * ceil_div({}, {})", turned ? "columns" : "rows", lines_of(form),
                     turned ? "rows" : "columns", kBlock));
  with_type(*problem.types[0], [&]<class T>(T) { Quantizer<T>(k, p, form, problem.tile.vector)(); });
  return k;
}

}  // namespace

RowOperation quantize_1x128() {
  using enum RowTensor::Use;
  return {.name = "quantize_1x128",
          .summary = "q = x / scale in e4m3, with a scale for each 128 elements of a row",
          .tensors = {{"x", {"rows", "columns"}, RowTensor::Type::any, read, "the rows"},
                      {"q", {"rows", "columns"}, RowTensor::Type::e4m3, written, "x divided by its scales"},
                      {"scale",
                       {"column_blocks", "rows"},
                       RowTensor::Type::number,
                       written,
                       "the greatest |x| of a block divided by 448"}},
          .numbers = {{"power_of_two", 0, "whether scales are rounded up to powers of two: not 0"}},
          .is_of_rows = false,
          .build = quantize_kernel<Form::of_rows>};
}

RowOperation silu_gate_quantize_1x128() {
  RowOperation o = quantize_1x128();
  o.name = "silu_gate_quantize_1x128";
  o.summary = "q = silu(x[0]) * x[1] / scale in e4m3, of two halves of each row";
  o.tensors[0] = {"x",
                  {"rows", "halves", "columns"},
                  RowTensor::Type::any,
                  RowTensor::Use::read,
                  "the inputs of silu, and the factors of its results"};
  o.build = quantize_kernel<Form::gated>;
  return o;
}

RowOperation quantize_128x1() {
  RowOperation o = quantize_1x128();
  o.name = "quantize_128x1";
  o.summary = "q = the transpose of x / scale in e4m3, with a scale for each 128 elements of a column of x";
  o.tensors[1].shape = {"columns", "rows"};
  o.tensors[2].shape = {"row_blocks", "columns"};
  o.build = quantize_kernel<Form::of_columns>;
  return o;
}

}  // namespace ptxbuilder::kernels
