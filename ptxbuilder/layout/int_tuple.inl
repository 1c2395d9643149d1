// Implements int_tuple.h for the files that instantiate it for one kind of integer.
#pragma once

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/error.h"
#include "ptxbuilder/layout/int_tuple.h"

namespace ptxbuilder {

template <class I>
BasicTuple<I>::BasicTuple(std::vector<BasicTuple> elements)
    : value_(int64_t{0}), elements_(std::move(elements)) {
  if (elements_.empty()) throw Error("a tuple of a layout has at least one element");
}

template <class I>
const I& BasicTuple<I>::value() const {
  if (is_tuple())
    throw Error(fmt::format("the tuple {} is given, but an integer is expected", to_string(*this)));
  return value_;
}

template <class I>
const BasicTuple<I>& BasicTuple<I>::operator[](size_t i) const {
  if (!is_tuple() && i == 0) return *this;
  if (i >= elements_.size())
    throw Error(fmt::format("there is no mode {} in {}, which has {}", i, to_string(*this), rank(*this)));
  return elements_[i];
}

template <class I>
BasicTuple<I> BasicTuple<I>::scaled_to(std::vector<int> basis) const {
  BasicTuple result(value());
  result.basis_ = std::move(basis);
  return result;
}

namespace detail {

template <class I>
std::optional<int64_t> known(const I& i) {
  return LayoutInteger<I>::known(i);
}
template <class I>
bool is(const I& i, int64_t value) {
  return known(i) == value;
}

template <class I, class F>
BasicTuple<I> transform(const BasicTuple<I>& a, F f) {
  std::vector<BasicTuple<I>> result;
  for (const BasicTuple<I>& e : a.elements()) result.push_back(f(e));
  return BasicTuple<I>(std::move(result));
}

// Combines two tuples of equal rank element by element.
template <class I, class F>
BasicTuple<I> transform(const char* function, const BasicTuple<I>& a, const BasicTuple<I>& b, F f) {
  if (a.elements().size() != b.elements().size())
    throw Error(fmt::format("{}: {} has rank {} and {} has rank {}; they must be equal", function,
                            to_string(a), rank(a), to_string(b), rank(b)));
  std::vector<BasicTuple<I>> result;
  for (size_t i = 0; i < a.elements().size(); ++i) result.push_back(f(a.elements()[i], b.elements()[i]));
  return BasicTuple<I>(std::move(result));
}

// Returns an integer with the basis of `a` and the given value.
template <class I>
BasicTuple<I> with_value(const BasicTuple<I>& a, I value) {
  return BasicTuple<I>(std::move(value)).scaled_to(a.basis());
}

template <class I>
BasicTuple<I> scale(const I& factor, const BasicTuple<I>& leaf) {
  return with_value(leaf, LayoutInteger<I>::multiply(factor, leaf.value()));
}

template <class I>
I ceil_div_integer(const I& a, const I& b) {
  using N = LayoutInteger<I>;
  if (is(b, 1)) return a;
  return N::divide(N::subtract(N::add(a, b), I(int64_t{1})), b);
}

// Returns a scaled basis vector as a coordinate; for example, 3@1 becomes (0,3).
template <class I>
BasicTuple<I> as_coordinate(const BasicTuple<I>& leaf) {
  BasicTuple<I> result(leaf.value());
  for (size_t i = leaf.basis().size(); i-- > 0;) {
    std::vector<BasicTuple<I>> elements(static_cast<size_t>(leaf.basis()[i]), BasicTuple<I>(int64_t{0}));
    elements.push_back(std::move(result));
    result = BasicTuple<I>(std::move(elements));
  }
  return result;
}

// Returns the sum of two coordinates. The shorter coordinate is extended with zeros, and the integer 0 fits
// any structure.
template <class I>
BasicTuple<I> add_coordinates(const BasicTuple<I>& a, const BasicTuple<I>& b) {
  if (!a.is_tuple() && !b.is_tuple()) return LayoutInteger<I>::add(a.value(), b.value());
  if (!a.is_tuple() && is(a.value(), 0)) return b;
  if (!b.is_tuple() && is(b.value(), 0)) return a;
  if (!a.is_tuple() || !b.is_tuple())
    throw Error(
        fmt::format("the coordinate {} and the integer {} cannot be added: strides with a basis and strides "
                    "without one are in one layout",
                    to_string(a.is_tuple() ? a : b), to_string(a.is_tuple() ? b : a)));
  std::vector<BasicTuple<I>> result;
  for (size_t i = 0; i < std::max(a.elements().size(), b.elements().size()); ++i)
    result.push_back(i >= a.elements().size()   ? b.elements()[i]
                     : i >= b.elements().size() ? a.elements()[i]
                                                : add_coordinates(a.elements()[i], b.elements()[i]));
  return BasicTuple<I>(std::move(result));
}

}  // namespace detail

template <class I>
bool operator==(const BasicTuple<I>& a, const BasicTuple<I>& b) {
  if (a.is_tuple() || b.is_tuple())
    return std::equal(a.elements().begin(), a.elements().end(), b.elements().begin(), b.elements().end());
  return a.basis() == b.basis() && detail::known(a.value()) &&
         detail::known(a.value()) == detail::known(b.value());
}

template <class I>
std::string to_string(const BasicTuple<I>& tuple) {
  std::string text;
  if (!tuple.is_tuple()) {
    text = LayoutInteger<I>::text(tuple.value());
    for (size_t i = tuple.basis().size(); i-- > 0;) text.append("@").append(std::to_string(tuple.basis()[i]));
    return text;
  }
  for (const BasicTuple<I>& e : tuple.elements()) text.append(text.empty() ? "(" : ",").append(to_string(e));
  text += ")";
  return text;
}

template <class I>
int rank(const BasicTuple<I>& tuple) {
  return tuple.is_tuple() ? static_cast<int>(tuple.elements().size()) : 1;
}

template <class I>
int depth(const BasicTuple<I>& tuple) {
  int deepest = -1;
  for (const BasicTuple<I>& e : tuple.elements()) deepest = std::max(deepest, depth(e));
  return deepest + 1;
}

template <class I>
I size(const BasicTuple<I>& shape) {
  if (!shape.is_tuple()) return shape.value();
  I product(int64_t{1});
  for (const BasicTuple<I>& e : shape.elements()) product = LayoutInteger<I>::multiply(product, size(e));
  return product;
}

template <class I>
std::vector<BasicTuple<I>> leaves(const BasicTuple<I>& tuple) {
  if (!tuple.is_tuple()) return {tuple};
  std::vector<BasicTuple<I>> all;
  for (const BasicTuple<I>& e : tuple.elements())
    for (BasicTuple<I>& leaf : leaves(e)) all.push_back(std::move(leaf));
  return all;
}

template <class I>
BasicTuple<I> flatten(const BasicTuple<I>& tuple) {
  if (!tuple.is_tuple()) return tuple;
  return BasicTuple<I>(leaves(tuple));
}

template <class I>
bool congruent(const BasicTuple<I>& a, const BasicTuple<I>& b) {
  return std::equal(a.elements().begin(), a.elements().end(), b.elements().begin(), b.elements().end(),
                    congruent<I>);
}

template <class I>
bool weakly_congruent(const BasicTuple<I>& a, const BasicTuple<I>& b) {
  return !a.is_tuple() || std::equal(a.elements().begin(), a.elements().end(), b.elements().begin(),
                                     b.elements().end(), weakly_congruent<I>);
}

template <class I>
bool compatible(const BasicTuple<I>& a, const BasicTuple<I>& b) {
  if (a.is_tuple())
    return std::equal(a.elements().begin(), a.elements().end(), b.elements().begin(), b.elements().end(),
                      compatible<I>);
  std::optional<int64_t> x = detail::known(a.value()), y = detail::known(size(b));
  if (!x || !y) throw Error(fmt::format("compatible: the size of {} must be known", to_string(x ? b : a)));
  return x == y;
}

namespace detail {

template <class I>
BasicTuple<I> compact(const BasicTuple<I>& shape, I& current, bool from_the_left) {
  if (!shape.is_tuple()) {
    if (is(shape.value(), 1)) return int64_t{0};
    I stride = current;
    current = LayoutInteger<I>::multiply(current, shape.value());
    return stride;
  }
  std::vector<BasicTuple<I>> strides(shape.elements().size());
  for (size_t i = 0; i < strides.size(); ++i) {
    size_t mode = from_the_left ? i : strides.size() - 1 - i;
    strides[mode] = compact(shape.elements()[mode], current, from_the_left);
  }
  return BasicTuple<I>(std::move(strides));
}

// Returns the sizes of those parts of a shape that correspond to the integers of a profile, from left to
// right.
template <class I, class J>
void sizes_at(const BasicTuple<I>& shape, const BasicTuple<J>& profile, std::vector<I>& sizes) {
  if (!profile.is_tuple()) return sizes.push_back(size(shape));
  if (shape.elements().size() != profile.elements().size())
    throw Error(
        fmt::format("the shape {} does not have the rank of {}", to_string(shape), to_string(profile)));
  for (size_t i = 0; i < profile.elements().size(); ++i)
    sizes_at(shape.elements()[i], profile.elements()[i], sizes);
}

template <class I>
BasicTuple<I> compact_order(const BasicTuple<I>& shape, const IntTuple& order, const std::vector<I>& sizes,
                            const std::vector<IntTuple>& orders) {
  if (order.is_tuple()) {
    std::vector<BasicTuple<I>> strides;
    for (size_t i = 0; i < order.elements().size(); ++i)
      strides.push_back(compact_order(shape.elements()[i], order.elements()[i], sizes, orders));
    return BasicTuple<I>(std::move(strides));
  }
  I start(int64_t{1});
  for (size_t i = 0; i < sizes.size(); ++i)
    if (orders[i].value() < order.value()) start = LayoutInteger<I>::multiply(start, sizes[i]);
  return compact_column_major(shape, start);
}

template <class I>
BasicTuple<I> basis_like(const BasicTuple<I>& shape, std::vector<int> path) {
  if (!shape.is_tuple()) return BasicTuple<I>(int64_t{1}).scaled_to(path);
  std::vector<BasicTuple<I>> strides;
  path.push_back(0);
  for (const BasicTuple<I>& e : shape.elements()) {
    strides.push_back(basis_like(e, path));
    ++path.back();
  }
  return BasicTuple<I>(std::move(strides));
}

}  // namespace detail

template <class I>
BasicTuple<I> compact_column_major(const BasicTuple<I>& shape, std::type_identity_t<I> current) {
  return detail::compact(shape, current, true);
}

template <class I>
BasicTuple<I> compact_row_major(const BasicTuple<I>& shape, std::type_identity_t<I> current) {
  return detail::compact(shape, current, false);
}

template <class I>
BasicTuple<I> compact_order(const BasicTuple<I>& shape, const IntTuple& order) {
  std::vector<I> sizes;
  detail::sizes_at(shape, order, sizes);
  return detail::compact_order(shape, order, sizes, leaves(order));
}

template <class I>
BasicTuple<I> basis_like(const BasicTuple<I>& shape) {
  return detail::basis_like(shape, {});
}

template <class I>
BasicTuple<I> image(TupleArgument<I> coordinate, TupleArgument<I> shape, TupleArgument<I> stride) {
  using N = LayoutInteger<I>;
  if (!shape.is_tuple()) {
    if (coordinate.is_tuple())
      throw Error(fmt::format("the coordinate {} goes deeper than the shape {}", to_string(coordinate),
                              to_string(shape)));
    return detail::as_coordinate(detail::scale(coordinate.value(), stride));
  }
  if (coordinate.is_tuple() && coordinate.elements().size() != shape.elements().size())
    throw Error(fmt::format("the coordinate {} has rank {}, the shape {} has {}", to_string(coordinate),
                            rank(coordinate), to_string(shape), rank(shape)));
  BasicTuple<I> sum(int64_t{0}), rest = coordinate;
  for (size_t i = 0; i < shape.elements().size(); ++i) {
    const BasicTuple<I>& s = shape.elements()[i];
    BasicTuple<I> c;
    if (coordinate.is_tuple()) {
      c = coordinate.elements()[i];
    } else if (i + 1 == shape.elements().size()) {
      c = rest;
    } else {
      c = N::remainder(rest.value(), size(s));
      rest = N::divide(rest.value(), size(s));
    }
    sum = detail::add_coordinates(sum, image<I>(c, s, stride[i]));
  }
  return sum;
}

namespace detail {

// Returns image() as a number, for host integers and strides without a basis. The function does not make
// tuples, because planning and proofs evaluate layouts for every element. Returns nullopt if image() would
// return a tuple or throw.
inline std::optional<int64_t> plain_offset(int64_t index, const IntTuple& shape, const IntTuple& stride) {
  using N = LayoutInteger<int64_t>;
  if (!shape.is_tuple()) {
    if (stride.is_tuple() || !stride.basis().empty()) return std::nullopt;
    return N::multiply(index, stride.value());
  }
  if (stride.elements().size() != shape.elements().size()) return std::nullopt;
  int64_t sum = 0;
  for (size_t i = 0; i < shape.elements().size(); ++i) {
    const IntTuple& s = shape.elements()[i];
    const bool is_last = i + 1 == shape.elements().size();
    const int64_t extent = is_last ? 1 : s.is_tuple() ? size(s) : s.value();
    const auto part = plain_offset(is_last ? index : N::remainder(index, extent), s, stride.elements()[i]);
    if (!part) return std::nullopt;
    sum = N::add(sum, *part);
    if (!is_last) index = N::divide(index, extent);
  }
  return sum;
}

inline std::optional<int64_t> plain_offset(const IntTuple& coordinate, const IntTuple& shape,
                                           const IntTuple& stride) {
  if (!coordinate.is_tuple())
    return coordinate.basis().empty() ? plain_offset(coordinate.value(), shape, stride) : std::nullopt;
  if (coordinate.elements().size() != shape.elements().size() ||
      stride.elements().size() != shape.elements().size())
    return std::nullopt;
  int64_t sum = 0;
  for (size_t i = 0; i < shape.elements().size(); ++i) {
    const auto part = plain_offset(coordinate.elements()[i], shape.elements()[i], stride.elements()[i]);
    if (!part) return std::nullopt;
    sum = LayoutInteger<int64_t>::add(sum, *part);
  }
  return sum;
}

}  // namespace detail

template <class I>
I crd2idx(TupleArgument<I> coordinate, TupleArgument<I> shape, TupleArgument<I> stride) {
  if constexpr (std::same_as<I, int64_t>)
    if (const auto offset = detail::plain_offset(coordinate, shape, stride)) return *offset;
  BasicTuple<I> result = image<I>(coordinate, shape, stride);
  if (result.is_tuple())
    throw Error(fmt::format("{}:{} yields coordinates, not offsets: its strides have a basis",
                            to_string(shape), to_string(stride)));
  return result.value();
}

template <class I>
I crd2idx(TupleArgument<I> coordinate, TupleArgument<I> shape) {
  using N = LayoutInteger<I>;
  if (!coordinate.is_tuple()) return coordinate.value();
  std::vector<I> sizes;
  detail::sizes_at(shape, coordinate, sizes);
  std::vector<BasicTuple<I>> flat = leaves(coordinate);
  I index = flat.back().value();
  for (size_t i = flat.size() - 1; i-- > 0;) index = N::add(flat[i].value(), N::multiply(sizes[i], index));
  return index;
}

template <class I>
BasicTuple<I> idx2crd(TupleArgument<I> index, TupleArgument<I> shape) {
  using N = LayoutInteger<I>;
  if (index.is_tuple())
    return detail::transform("idx2crd", index, shape,
                             [](const auto& i, const auto& s) { return idx2crd<I>(i, s); });
  if (!shape.is_tuple()) return index;
  std::vector<BasicTuple<I>> coordinate;
  I rest = index.value();
  for (size_t i = 0; i < shape.elements().size(); ++i) {
    const BasicTuple<I>& s = shape.elements()[i];
    bool last = i + 1 == shape.elements().size();
    coordinate.push_back(idx2crd<I>(last ? rest : N::remainder(rest, size(s)), s));
    if (!last) rest = N::divide(rest, size(s));
  }
  return BasicTuple<I>(std::move(coordinate));
}

template <class I>
BasicTuple<I> idx2crd(TupleArgument<I> index, TupleArgument<I> shape, TupleArgument<I> stride) {
  using N = LayoutInteger<I>;
  if (index.is_tuple()) {
    if (!congruent<I>(shape, stride) || rank<I>(index) != rank<I>(shape) || !shape.is_tuple())
      throw Error(fmt::format("idx2crd: the index {} does not fit the shape {} and the strides {}",
                              to_string(index), to_string(shape), to_string(stride)));
    std::vector<BasicTuple<I>> coordinate;
    for (size_t i = 0; i < index.elements().size(); ++i)
      coordinate.push_back(idx2crd<I>(index.elements()[i], shape[i], stride[i]));
    return BasicTuple<I>(std::move(coordinate));
  }
  if (shape.is_tuple()) {
    BasicTuple<I> strides = stride.is_tuple() ? stride : compact_column_major(shape, stride.value());
    return detail::transform("idx2crd", shape, strides,
                             [&](const auto& s, const auto& d) { return idx2crd<I>(index, s, d); });
  }
  if (detail::is(shape.value(), 1)) return int64_t{0};
  return N::remainder(N::divide(index.value(), stride.value()), shape.value());
}

template <class I>
BasicTuple<I> crd2crd(TupleArgument<I> coordinate, TupleArgument<I> from, TupleArgument<I> to) {
  if (!coordinate.is_tuple() || !from.is_tuple() || !to.is_tuple())
    return idx2crd<I>(crd2idx<I>(coordinate, from), to);
  if (coordinate.elements().size() != from.elements().size() ||
      from.elements().size() != to.elements().size())
    throw Error(fmt::format("crd2crd: {}, {} and {} must have one rank", to_string(coordinate),
                            to_string(from), to_string(to)));
  std::vector<BasicTuple<I>> result;
  for (size_t i = 0; i < to.elements().size(); ++i)
    result.push_back(crd2crd<I>(coordinate.elements()[i], from.elements()[i], to.elements()[i]));
  return BasicTuple<I>(std::move(result));
}

template <class I>
BasicTuple<I> ceil_div(const BasicTuple<I>& a, TupleArgument<I> b) {
  if (!a.is_tuple()) return detail::ceil_div_integer(a.value(), size<I>(b));
  std::vector<BasicTuple<I>> result;
  if (b.is_tuple()) {
    if (b.elements().size() > a.elements().size())
      throw Error(fmt::format("ceil_div: {} has more modes than {}", to_string(b), to_string(a)));
    for (size_t i = 0; i < a.elements().size(); ++i)
      result.push_back(i < b.elements().size() ? ceil_div(a.elements()[i], b.elements()[i])
                                               : a.elements()[i]);
    return BasicTuple<I>(std::move(result));
  }
  I rest = b.value();
  for (const BasicTuple<I>& e : a.elements()) {
    result.push_back(ceil_div(e, rest));
    rest = detail::ceil_div_integer(rest, size(e));
  }
  return BasicTuple<I>(std::move(result));
}

#define PTXBUILDER_INSTANTIATE_INT_TUPLE(I)                                                      \
  template class BasicTuple<I>;                                                                  \
  template bool operator==<I>(const BasicTuple<I>&, const BasicTuple<I>&);                       \
  template std::string to_string<I>(const BasicTuple<I>&);                                       \
  template int rank<I>(const BasicTuple<I>&);                                                    \
  template int depth<I>(const BasicTuple<I>&);                                                   \
  template I size<I>(const BasicTuple<I>&);                                                      \
  template BasicTuple<I> flatten<I>(const BasicTuple<I>&);                                       \
  template std::vector<BasicTuple<I>> leaves<I>(const BasicTuple<I>&);                           \
  template bool congruent<I>(const BasicTuple<I>&, const BasicTuple<I>&);                        \
  template bool weakly_congruent<I>(const BasicTuple<I>&, const BasicTuple<I>&);                 \
  template bool compatible<I>(const BasicTuple<I>&, const BasicTuple<I>&);                       \
  template BasicTuple<I> compact_column_major<I>(const BasicTuple<I>&, std::type_identity_t<I>); \
  template BasicTuple<I> compact_row_major<I>(const BasicTuple<I>&, std::type_identity_t<I>);    \
  template BasicTuple<I> compact_order<I>(const BasicTuple<I>&, const IntTuple&);                \
  template BasicTuple<I> basis_like<I>(const BasicTuple<I>&);                                    \
  template I crd2idx<I>(TupleArgument<I>, TupleArgument<I>, TupleArgument<I>);                   \
  template I crd2idx<I>(TupleArgument<I>, TupleArgument<I>);                                     \
  template BasicTuple<I> image<I>(TupleArgument<I>, TupleArgument<I>, TupleArgument<I>);         \
  template BasicTuple<I> idx2crd<I>(TupleArgument<I>, TupleArgument<I>);                         \
  template BasicTuple<I> idx2crd<I>(TupleArgument<I>, TupleArgument<I>, TupleArgument<I>);       \
  template BasicTuple<I> crd2crd<I>(TupleArgument<I>, TupleArgument<I>, TupleArgument<I>);       \
  template BasicTuple<I> ceil_div<I>(const BasicTuple<I>&, TupleArgument<I>);

}  // namespace ptxbuilder
