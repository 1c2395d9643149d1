#include "ptxbuilder/ir/tensor_modes.h"

#include <fmt/format.h>

#include "ptxbuilder/ir/builder.h"
#include "ptxbuilder/ir/math.h"

namespace ptxbuilder {
namespace {

using N = LayoutInteger<Index>;

constexpr size_t kMostDimensions = 5;  // greatest number of dimensions of a tensor map

Index one() { return Index(int64_t{1}); }

// Returns a stride of `by` steps along a dimension.
DeviceTuple step(const Index& by, size_t dimension) {
  return DeviceTuple(by).scaled_to({static_cast<int>(dimension)});
}

// Replaces the integers of a tuple with `leaves`, from left to right, starting at leaf number `next`.
DeviceTuple with_leaves(const DeviceTuple& tuple, const std::vector<DeviceTuple>& leaves, size_t& next) {
  if (!tuple.is_tuple()) return leaves[next++];
  std::vector<DeviceTuple> elements;
  for (const DeviceTuple& e : tuple.elements()) elements.push_back(with_leaves(e, leaves, next));
  return DeviceTuple(std::move(elements));
}

// Returns the number of steps from `first` to the end of a dimension.
Index rest(const Index& size, const Index& first, const Index& step) {
  const Index left = N::subtract(size, first);
  const Index above =
      left.known() ? Index(std::max(*left.known(), int64_t{0})) : Index(u32(max(s32(left.value()), s32(0))));
  return N::divide(N::subtract(N::add(above, step), one()), step);
}

}  // namespace

TensorModes::TensorModes(const DeviceLayout& tensor, Where where) : tensor_(tensor) {
  AtLine line(where);
  struct Run {
    Index size, stride;
  };
  std::vector<Run> runs;
  std::vector<Index> steps;
  for (int mode = 0; mode < rank(tensor); ++mode) {
    const DeviceLayout of_mode = tensor[static_cast<size_t>(mode)];
    const std::vector<DeviceTuple> shape = leaves(of_mode.shape()), stride = leaves(of_mode.stride());
    const size_t first = runs.size();
    for (size_t i = 0; i < shape.size(); ++i) {
      const Index &size = shape[i].value(), &apart = stride[i].value();
      if (!stride[i].basis().empty())
        throw Error(
            fmt::format("tensor modes: the stride {} of {} has a basis, but strides must count elements",
                        to_string(stride[i]), to_string(tensor)));
      Run* const before = runs.size() > first ? &runs.back() : nullptr;
      const bool continues = before && before->size.known() && before->stride.known() && size.known() &&
                             apart.known() &&
                             *apart.known() == *before->size.known() * *before->stride.known();
      steps.push_back(continues ? before->size : one());
      if (continues)
        before->size = N::multiply(before->size, size);
      else
        runs.push_back({size, apart});
      dimension_of_.push_back(runs.size() - 1);
    }
  }
  // The contiguous dimension is moved to the front. If several dimensions are contiguous, one with more than
  // one element is preferred.
  size_t contiguous = runs.size();
  for (size_t i = 0; i < runs.size(); ++i)
    if (runs[i].stride.known() == 1 && (contiguous == runs.size() || runs[contiguous].size.known() == 1))
      contiguous = i;
  std::vector<size_t> order;
  if (contiguous < runs.size()) order.push_back(contiguous);
  for (size_t i = 0; i < runs.size(); ++i)
    if (i != contiguous) order.push_back(i);
  std::vector<size_t> place(runs.size());
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  for (const size_t i : order) dimensions_.emplace_back(runs[i].size, Stride(runs[i].stride));
  std::vector<DeviceTuple> strides;
  for (size_t i = 0; i < steps.size(); ++i) {
    dimension_of_[i] = place[dimension_of_[i]];
    strides.push_back(step(steps[i], dimension_of_[i]));
  }
  size_t next = 0;
  layout_ = DeviceLayout(tensor.shape(), with_leaves(tensor.shape(), strides, next));
  corner_.assign(dimensions_.size(), Index(int64_t{0}));
}

TensorModes TensorModes::moved(DeviceLayout layout, const DeviceTuple& by) const {
  TensorModes view = *this;
  view.layout_ = std::move(layout);
  for (size_t i = 0; i < by.elements().size(); ++i)
    view.corner_[i] = N::add(corner_[i], by.elements()[i].value());
  return view;
}

TensorModes TensorModes::slice(const DeviceTiler& at, Where where) const {
  AtLine line(where);
  const DeviceLayout kept = ptxbuilder::slice(at, layout_);
  std::vector<DeviceTuple> coordinate;
  const std::function<void(const DeviceTiler&)> collect = [&](const DeviceTiler& t) {
    if (const Index* i = t.integer()) coordinate.emplace_back(*i);
    if (t.is_tuple())
      for (const DeviceTiler& e : t.modes()) collect(e);
  };
  collect(at);
  if (coordinate.empty()) return moved(kept, Index(int64_t{0}));
  return moved(kept, image(DeviceTuple(std::move(coordinate)), dice(at, layout_)));
}

TensorModes TensorModes::tile(const DeviceTiler& tiler, const DeviceTuple& at, Where where) const {
  AtLine line(where);
  const DeviceLayout divided = zipped_divide(layout_, tiler);
  return moved(divided[0], image(at, divided[1]));
}

std::vector<Index> TensorModes::coordinates(const DeviceTuple& at, Where where) const {
  AtLine line(where);
  return moved(layout_, image(at, layout_)).corner_;
}

std::array<TensorModes::Axis, 2> TensorModes::axes(std::string_view operation) const {
  if (rank(layout_) != 2)
    throw Error(fmt::format("{}: the view {} has {} modes, but must have two, the rows and the columns",
                            operation, to_string(layout_), rank(layout_)));
  const DeviceLayout merged = coalesce(layout_, DeviceTuple{1, 1});
  std::array<Axis, 2> both;
  for (size_t mode = 0; mode < 2; ++mode) {
    const std::vector<DeviceTuple> shape = leaves(merged[mode].shape()),
                                   stride = leaves(merged[mode].stride());
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i].value().known() != 1)
        both[mode].parts.push_back(
            {shape[i].value(), static_cast<size_t>(stride[i].basis().at(0)), stride[i].value()});
  }
  return both;
}

void TensorModes::check_mapped(std::string_view operation) const {
  if (dimensions_.size() > kMostDimensions)
    throw Error(
        fmt::format("{}: the tensor {} has {} dimensions, but a tensor map has at most {}; neighbours in a "
                    "mode are merged if their strides continue each other and are known",
                    operation, to_string(tensor_), dimensions_.size(), kMostDimensions));
  if (dimensions_[0].stride.known() != 1)
    throw Error(fmt::format("{}: the tensor {} has no stride of 1, but TMA reads contiguous elements",
                            operation, to_string(tensor_)));
}

TensorCopy::MappedTensor TensorModes::map_tensor(const Layout& tensor, DType type, Where where) const {
  CallersLine line(where);
  check_mapped("map_tensor");
  const std::vector<DeviceTuple> shape = leaves(tensor_.shape()), stride = leaves(tensor_.stride());
  const std::vector<IntTuple> sizes = leaves(tensor.shape()), apart = leaves(tensor.stride());
  const auto fits = [](const DeviceTuple& kernels, const IntTuple& given) {
    return kernels.value().known().value_or(given.value()) == given.value();
  };
  bool same = sizes.size() == shape.size();
  for (size_t i = 0; same && i < sizes.size(); ++i)
    same = fits(shape[i], sizes[i]) && fits(stride[i], apart[i]);
  if (!same)
    throw Error(fmt::format("map_tensor: the layout is {}, but the kernel was built for {}",
                            to_string(tensor), to_string(tensor_)));
  TensorCopy::MappedTensor mapped{std::vector<uint64_t>(dimensions_.size(), 1), {}};
  std::vector<uint64_t> strides(dimensions_.size(), 0);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t d = dimension_of_[i];
    if (strides[d] == 0)
      strides[d] = static_cast<uint64_t>(apart[i].value()) * static_cast<uint64_t>(size_of(type));
    mapped.shape[d] *= static_cast<uint64_t>(sizes[i].value());
  }
  mapped.strides.assign(strides.begin() + 1, strides.end());
  return mapped;
}

namespace detail {

llvm::Value* element_of(llvm::Value* start, DType type, const TensorModes& modes, const DeviceTuple& at) {
  std::vector<Dimension> dimensions;
  std::vector<std::optional<TensorCoordinate>> all;
  for (const Index& coordinate : modes.coordinates(at)) {
    dimensions.push_back(modes.dimension(all.size()));
    all.emplace_back(coordinate.known() ? TensorCoordinate(*coordinate.known())
                                        : TensorCoordinate(coordinate.value()));
  }
  return tensor_address(start, type, dimensions, all);
}

GlobalTile matrix_of(llvm::Value* start, DType type, const TensorModes& modes) {
  const std::array<TensorModes::Axis, 2> axes = modes.axes("matrix");
  int aligned = 16 / size_of(type);
  std::vector<Dimension> matrix;
  std::array<Index, 2> corner = {0, 0};
  std::vector<Index> others = modes.corner();
  for (size_t mode = 0; mode < 2; ++mode) {
    const auto& parts = axes[mode].parts;
    if (parts.empty()) {
      matrix.emplace_back(Index(1), Stride(0));
      continue;
    }
    const TensorModes::Axis::Part& part = parts[0];
    const bool shared = mode == 1 && !axes[0].parts.empty() && axes[0].parts[0].dimension == part.dimension;
    if (parts.size() > 1 || shared)
      throw Error(fmt::format(
          "matrix: in the view {}, the {} run along {}, but a matrix must have one dimension for its rows "
          "and one for its columns; take a slice",
          to_string(modes.layout()), mode == 0 ? "rows" : "columns",
          shared ? "the same dimension as the rows" : fmt::format("{} dimensions", parts.size())));
    const Dimension& along = modes.dimension(part.dimension);
    Index& first = others[part.dimension];
    if (part.step.known() == 1) {
      matrix.push_back(along);
      corner[mode] = std::exchange(first, Index(0));
    } else {
      matrix.emplace_back(rest(along.size, first, part.step), along.stride * part.step);
    }
  }
  std::vector<Dimension> dimensions;
  std::vector<std::optional<TensorCoordinate>> fixed;
  const auto coordinate = [](const Index& i) {
    return i.known() ? TensorCoordinate(*i.known()) : TensorCoordinate(i.value());
  };
  for (size_t d = 0; d < others.size(); ++d) {
    dimensions.push_back(modes.dimension(d));
    fixed.emplace_back(coordinate(others[d]));
    aligned = std::min(aligned, divisor_of(others[d]) * dimensions[d].stride_divisor);
  }
  return tensor_tile(tensor_address(start, type, dimensions, fixed), type, matrix, aligned,
                     coordinate(corner[0]), coordinate(corner[1]), true);
}

}  // namespace detail
}  // namespace ptxbuilder
