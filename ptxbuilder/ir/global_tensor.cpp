#include "ptxbuilder/ir/global_tensor.h"

#include <fmt/format.h>
#include <llvm/IR/Operator.h>

#include <bit>

#include "ptxbuilder/ir/builder.h"
#include "ptxbuilder/ir/state.h"

namespace ptxbuilder {
namespace {

constexpr int kMostDivisor = 64;  // greater than any divisor that an access needs

int divisor_of_number(int64_t value) {
  if (value == 0) return kMostDivisor;
  return static_cast<int>(std::min<int64_t>(kMostDivisor, value & -value));
}

// Derives the divisor of a device value from the operations that compute it. Loop-carried values are not
// examined, because they are incomplete while the loop's body is emitted.
int divisor_of_value(const llvm::Value* value, int depth = 0) {
  if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value))
    return divisor_of_number(constant->getSExtValue());
  auto* operation = llvm::dyn_cast<llvm::Operator>(value);
  if (!operation || depth == 6) return 1;
  auto operand = [&](unsigned i) { return divisor_of_value(operation->getOperand(i), depth + 1); };
  switch (operation->getOpcode()) {
    case llvm::Instruction::Mul:
      return std::min(kMostDivisor, operand(0) * operand(1));
    case llvm::Instruction::Shl:
      if (auto* bits = llvm::dyn_cast<llvm::ConstantInt>(operation->getOperand(1));
          bits && bits->getValue().ult(6))
        return std::min(kMostDivisor, operand(0) << bits->getZExtValue());
      return operand(0);
    case llvm::Instruction::Add:
    case llvm::Instruction::Sub:
    case llvm::Instruction::Or:
    case llvm::Instruction::Xor:
      return std::min(operand(0), operand(1));
    case llvm::Instruction::And:
      return std::max(operand(0), operand(1));
    case llvm::Instruction::ZExt:
      return operand(0);
    default:
      return 1;
  }
}

template <class T>
std::optional<int64_t> known_value(T value) {
  if (auto constant = Builder::current().constant(value)) return static_cast<int64_t>(constant->value);
  return std::nullopt;
}

}  // namespace

Stride::Stride(u32 elements) : known_(known_value(elements)) {
  if (!known_) narrow_ = elements;
}

Stride::Stride(u64 elements) : known_(known_value(elements)) {
  if (!known_) wide_ = elements;
}

Stride::Stride(const Index& elements) : known_(elements.known()) {
  if (!known_) narrow_ = elements.value();
}

u64 Stride::times(const Index& coordinate) const {
  if (known_ && coordinate.known()) return u64(static_cast<uint64_t>(*known_ * *coordinate.known()));
  const u64 steps =
      coordinate.known() ? u64(static_cast<uint64_t>(*coordinate.known())) : u64(coordinate.value());
  if (known_ == 1) return steps;
  if (known_) return steps * u64(static_cast<uint64_t>(*known_));
  return steps * (narrow_ ? u64(*narrow_) : *wide_);
}

Stride operator*(const Stride& stride, const Index& extent) {
  if (stride.known_ && extent.known()) return *stride.known_ * *extent.known();
  if (stride.known_ == 1) return extent;
  return stride.times(extent);
}

int Stride::divisor() const {
  if (known_) return divisor_of_number(*known_);
  return divisor_of_value(narrow_ ? narrow_->handle() : wide_->handle());
}

namespace detail {

Dimension::Dimension(const Index& size, const Stride& stride)
    : size(size), stride(stride), size_divisor(divisor_of(size)), stride_divisor(stride.divisor()) {}

std::vector<Dimension> dimensions(std::span<const Index> shape, std::span<const Stride> strides) {
  std::vector<Dimension> all;
  for (size_t i = 0; i < shape.size(); ++i) all.emplace_back(shape[i], strides[i]);
  return all;
}

std::vector<Dimension> packed_dimensions(std::span<const Index> shape) {
  std::vector<Dimension> all;
  Stride stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    all.emplace(all.begin(), shape[i], stride);
    if (i > 0) stride = stride * shape[i];
  }
  return all;
}

void promise_multiples(std::vector<Dimension>& dimensions, int elements) {
  if (elements < 1 || !std::has_single_bit(static_cast<unsigned>(elements)))
    throw Error(fmt::format("multiples_of: the number is {}, but must be a power of two", elements));
  auto promise = [&](const char* what, std::optional<int64_t> known, int& divisor) {
    if (known && *known % elements != 0)
      throw Error(
          fmt::format("multiples_of: the {} is {}, but must be a multiple of {}", what, *known, elements));
    divisor = std::max(divisor, elements);
  };
  for (Dimension& d : dimensions)
    if (d.stride.known() == 1)
      promise("extent", d.size.known(), d.size_divisor);
    else
      promise("stride", d.stride.known(), d.stride_divisor);
}

int divisor_of(const Index& index) {
  return index.known() ? divisor_of_number(*index.known()) : divisor_of_value(index.value().handle());
}

llvm::Value* tensor_address(llvm::Value* start, DType element, std::span<const Dimension> dimensions,
                            std::span<const std::optional<TensorCoordinate>> at) {
  // Offsets along device strides are added in elements, and one instruction scales the sum to bytes. Offsets
  // along strides that are known on the host are computed in bytes directly.
  bool summed = false;
  for (size_t i = 0; i < dimensions.size(); ++i) summed = summed || (at[i] && !dimensions[i].stride.known());
  llvm::Value* address = start;
  std::optional<u64> sum;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const Stride& stride = dimensions[i].stride;
    if (!at[i] || at[i]->index.known() == 0) continue;
    const u64 steps = stride.times(at[i]->index);
    if (summed && (!stride.known() || stride.known() == 1))
      sum = sum ? *sum + steps : steps;
    else
      address = element_address(address, element, steps.handle());
  }
  if (!sum) return address;
  return address_add(address, (*sum * static_cast<uint64_t>(size_of(element))).handle());
}

GlobalTile tensor_tile(llvm::Value* start, DType element, std::span<const Dimension> matrix, int aligned,
                       const TensorCoordinate& row, const TensorCoordinate& col, bool bounded) {
  AtLine line(row.where);
  const std::array<std::optional<TensorCoordinate>, 2> corner = {row, col};
  GlobalTile tile{gmem(tensor_address(start, element, matrix, corner)), matrix[0].stride, matrix[1].stride};
  // Returns the number of coordinates from `first`, the corner, to the end of a dimension.
  auto rest = [](const Index& size, const Index& first) -> s32 {
    if (size.known() && first.known()) return s32(*size.known() - *first.known());
    return s32(first.known() == 0 ? size.value() : size.value() - first.value());
  };
  if (bounded) {
    tile.rows = rest(matrix[0].size, row.index);
    tile.cols = rest(matrix[1].size, col.index);
  }
  for (int along : {0, 1}) {
    const Dimension &contiguous = matrix[static_cast<size_t>(along)],
                    &other = matrix[static_cast<size_t>(1 - along)];
    if (contiguous.stride.known() != 1) continue;
    tile.vector =
        std::min({aligned, other.stride_divisor, divisor_of(corner[static_cast<size_t>(along)]->index)});
    if (bounded) tile.vector = std::min(tile.vector, contiguous.size_divisor);
    tile.vector = std::max(tile.vector, 1);
  }
  return tile;
}

}  // namespace detail

}  // namespace ptxbuilder
