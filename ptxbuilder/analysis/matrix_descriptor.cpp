#include "ptxbuilder/analysis/matrix_descriptor.h"

#include <algorithm>
#include <charconv>

namespace ptxbuilder::analysis {

std::string_view layout_name(const MatrixDescriptor& d) {
  constexpr std::string_view names[] = {"no swizzle", "swizzle 128", "swizzle 64", "swizzle 32"};
  return names[at(d.layout)];
}

std::optional<MatrixDescriptor> decode_descriptor(const Values& values, const Sum& descriptor) {
  // The address field contains bits 4 to 17 of the address. Some kernels include bit 18, which is 0 in shared
  // memory. Other terms are steps in units of 16 bytes, and may be added before or after masking.
  MatrixDescriptor d;
  bool has_address = false;
  Sum steps;
  const auto is = [](const Sum& sum, int64_t x, int64_t y) {
    return sum.is_constant() && (sum.constant == x || sum.constant == y);
  };
  // Matches a mask of bits 0 to 13 or 14. The lowest bits may be missing, because they are 0 if a tile is
  // aligned.
  const auto is_field = [](const Sum& sum) {
    const int64_t lowest = sum.constant & -sum.constant, above = sum.constant + lowest;
    return sum.is_constant() && (above == 0x4000 || above == 0x8000);
  };
  // Returns x from shr(x, 4) if x is in shared memory, or from shr(x & mask, 4) if the mask contains bits 4
  // to 17.
  const auto address_of = [&](const Atom& a) -> std::optional<Sum> {
    if (!a.name.starts_with("shr") || a.inputs.size() != 2 || !is(a.inputs[1], 4, 4)) return std::nullopt;
    if (values.is_in_shared(a.inputs[0])) return a.inputs[0];
    const Atom* masked = values.only_atom(a.inputs[0], "and");
    constexpr int64_t kField = 0x3fff0;
    if (!masked || masked->inputs.size() != 2 || !masked->inputs[1].is_constant() ||
        (masked->inputs[1].constant & kField) != kField)
      return std::nullopt;
    return masked->inputs[0];
  };
  // Finds shr(x, 4) among the terms of a sum.
  const auto shifted = [&](const Sum& sum) {
    return std::find_if(sum.terms.begin(), sum.terms.end(), [&](const auto& term) {
      const Atom& a = values.atom(term.first);
      return term.second == 1 && a.name.starts_with("shr") && a.inputs.size() == 2 && is(a.inputs[1], 4, 4);
    });
  };
  const auto add_steps = [&](const Sum& sum, std::vector<std::pair<int, int64_t>>::const_iterator but) {
    for (auto term = sum.terms.begin(); term != sum.terms.end(); ++term)
      if (term != but) steps.terms.emplace_back(term->first, term->second * 16);
  };
  for (const auto& [number, factor] : descriptor.terms) {
    const Atom& a = values.atom(number);
    if (!has_address && factor == 1 && a.name.starts_with("bfe") && a.inputs.size() == 3 &&
        is(a.inputs[1], 4, 4) && is(a.inputs[2], 14, 15)) {
      d.address = a.inputs[0];
      has_address = true;
    } else if (const auto whole = factor == 1 && !has_address ? address_of(a) : std::nullopt) {
      d.address = *whole;
      has_address = true;
    } else if (!has_address && factor == 1 && a.name.starts_with("and") && a.inputs.size() == 2 &&
               is_field(a.inputs[1]) && shifted(a.inputs[0]) != a.inputs[0].terms.end()) {
      const auto address = shifted(a.inputs[0]);
      d.address = values.atom(address->first).inputs[0];
      d.address.constant += 16 * a.inputs[0].constant;
      add_steps(a.inputs[0], address);
      has_address = true;
    } else {
      steps.terms.emplace_back(number, factor * 16);
    }
  }
  if (!has_address) return std::nullopt;
  const auto bits = static_cast<uint64_t>(descriptor.constant);
  d.address.constant += static_cast<int64_t>(bits & 0x3fff) * 16;
  for (const auto& term : steps.terms) {
    const auto place = std::lower_bound(d.address.terms.begin(), d.address.terms.end(), term);
    if (place != d.address.terms.end() && place->first == term.first)
      place->second += term.second;
    else
      d.address.terms.insert(place, term);
  }
  d.leading_bytes = static_cast<int64_t>((bits >> 16) & 0x3fff) * 16;
  d.stride_bytes = static_cast<int64_t>((bits >> 32) & 0x3fff) * 16;
  d.base_offset = static_cast<int64_t>((bits >> 49) & 7);
  d.layout = static_cast<int>(bits >> 62);
  return d;
}

MatrixOperand matrix_operand(const Operation& wgmma, size_t n) {
  MatrixOperand operand{64};
  for (std::string_view word : wgmma.words)
    if (n == 2 && word.starts_with("m64n"))
      std::from_chars(word.data() + 4, word.data() + word.size(), operand.lines);
  // The last operands are scale-d, imm-scale-a, imm-scale-b, and whether A and B are transposed. If A is in
  // registers, there is no flag for its transposition.
  const bool has_a = wgmma.operands[1].kind != Value::Kind::vector;
  const size_t last = wgmma.operands.size() - 1;
  if (wgmma.operands.size() > (has_a ? 7u : 6u))
    operand.is_transposed = wgmma.operands[n == 1 ? last - 1 : last].value != 0;
  return operand;
}

int64_t bytes_read(const MatrixDescriptor& d, const MatrixOperand& operand) {
  constexpr int64_t kLines = 8, kBlock = 128, kElement = 2;
  if (d.layout == 0) return (operand.lines / kLines - 1) * d.stride_bytes + d.leading_bytes + kBlock;
  const int64_t width = 256 >> d.layout;
  if (!operand.is_transposed) return (operand.lines / kLines - 1) * d.stride_bytes + kLines * width;
  const int64_t panels = std::max<int64_t>(1, operand.lines * kElement / width);
  return (panels - 1) * d.leading_bytes + d.stride_bytes + kLines * width;
}

}  // namespace ptxbuilder::analysis
