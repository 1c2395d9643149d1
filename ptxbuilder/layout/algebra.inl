// Implements the algebra of layout.h for the files that instantiate it: coalesce, composition, complement,
// inverses, and functions based on these.
#pragma once

#include <numeric>

#include "ptxbuilder/layout/layout.inl"

namespace ptxbuilder {
namespace detail {

template <class I>
bool known_equal(const BasicTuple<I>& a, const BasicTuple<I>& b) {
  std::optional<int64_t> x = known(a.value()), y = known(b.value());
  return x && x == y && (a.basis() == b.basis() || *x == 0);
}

// Merges each mode with the previous mode if it continues where the previous mode ends. The last mode is
// processed first. If `keep_beyond` is true, a last mode of size 1 still determines how the function
// continues beyond its domain.
template <class I>
BasicLayout<I> coalesce(const BasicLayout<I>& layout, bool keep_beyond) {
  std::vector<BasicLayout<I>> flat = leaf_modes(layout), result;  // `result` is built from right to left
  if (keep_beyond && is(flat.back().shape().value(), 1))
    flat.back() = BasicLayout<I>(int64_t{2}, flat.back().stride());
  for (size_t i = flat.size(); i-- > 0;) {
    const I& shape = flat[i].shape().value();
    if (i + 1 == flat.size()) {
      result.push_back(flat[i]);
    } else if (is(shape, 1)) {
      continue;
    } else if (is(result.back().shape().value(), 1)) {
      result.back() = flat[i];
    } else if (known(result.back().shape().value()) &&
               known_equal(scale(shape, flat[i].stride()), result.back().stride())) {
      I merged = LayoutInteger<I>::multiply(shape, result.back().shape().value());
      result.back() = BasicLayout<I>(merged, flat[i].stride());
    } else {
      result.push_back(flat[i]);
    }
  }
  if (result.size() == 1 && is(result[0].shape().value(), 1)) return BasicLayout<I>();
  std::reverse(result.begin(), result.end());
  return unwrap(result);
}

template <class I>
BasicLayout<I> coalesce(const BasicLayout<I>& layout, const BasicTuple<I>& profile, bool keep_beyond) {
  if (!profile.is_tuple()) return coalesce(layout, keep_beyond);
  return by_mode(layout, profile.elements(), true,
                 [&](const auto& l, const auto& p) { return coalesce(l, p, keep_beyond); });
}

// Returns the zero among the values that the strides yield: a tuple of zeros or, for strides without a basis,
// the integer 0.
template <class I>
BasicTuple<I> coprofile(const BasicTuple<I>& stride) {
  BasicTuple<I> sum(int64_t{0});
  for (const BasicTuple<I>& d : leaves(stride))
    sum = add_coordinates(sum, as_coordinate(with_value(d, I(int64_t{0}))));
  return sum;
}

template <class I>
BasicTuple<I> at_basis(const BasicTuple<I>& tuple, const std::vector<int>& basis) {
  BasicTuple<I> result = tuple;
  for (int mode : basis) result = BasicTuple<I>(result[static_cast<size_t>(mode)]);
  return result;
}

template <class I>
struct Fold {
  std::vector<BasicLayout<I>> result;
  I rest_shape, rest_stride;
};

// Composes one mode of `a`, shape : stride, with the remainder of `b`, rest_shape : rest_stride, and adds the
// result to the composition.
template <class I>
void compose_mode(Fold<I>& f, const I& shape, const BasicTuple<I>& stride) {
  using N = LayoutInteger<I>;
  std::optional<int64_t> s = known(shape), d = known(f.rest_stride);
  if (s && d && *d % *s != 0 && *d >= *s)
    throw Error(fmt::format("the stride {} must be below the shape {} of {}:{}, or a multiple of it", *d, *s,
                            *s, to_string(stride)));
  bool negative = d && *d < 0;
  I magnitude = negative ? N::multiply(f.rest_stride, I(int64_t{-1})) : f.rest_stride;
  I next_shape = ceil_div_integer(shape, magnitude), next_stride = ceil_div_integer(magnitude, shape);
  if (negative) next_stride = N::multiply(next_stride, I(int64_t{-1}));
  if (!is(next_shape, 1) && !is(f.rest_shape, 1)) {
    I part = N::minimum(next_shape, f.rest_shape);
    std::optional<int64_t> p = known(part), rest = known(f.rest_shape);
    if (p && rest && *rest % *p != 0)
      throw Error(fmt::format("{} of the {} elements fit in the mode {}:{}, which does not divide them", *p,
                              *rest, LayoutInteger<I>::text(shape), to_string(stride)));
    f.result.push_back(BasicLayout<I>(part, scale(f.rest_stride, stride)));
    f.rest_shape = N::divide(f.rest_shape, part);
  }
  f.rest_stride = next_stride;
}

// Returns a o shape : stride, for a coalesced `a`.
template <class I>
BasicLayout<I> compose(const BasicLayout<I>& a, const BasicTuple<I>& shape, const BasicTuple<I>& stride) {
  if (shape.is_tuple()) {
    std::vector<BasicLayout<I>> modes;
    for (size_t i = 0; i < shape.elements().size(); ++i) modes.push_back(compose(a, shape[i], stride[i]));
    return concatenate(modes);
  }
  if (const std::optional<int64_t> n = known(shape.value()); n && *n < 1)
    throw Error(
        fmt::format("composition with {}:{}: a shape is at least 1, not {}", *n, to_string(stride), *n));
  if (!stride.basis().empty()) {
    BasicLayout<I> mode(at_basis(a.shape(), stride.basis()), at_basis(a.stride(), stride.basis()));
    return compose(mode, shape, BasicTuple<I>(stride.value()));
  }
  if (is(stride.value(), 0)) return BasicLayout<I>(shape, stride);
  if (!a.shape().is_tuple()) return BasicLayout<I>(shape, scale(stride.value(), a.stride()));
  if (depth(a) > 1)
    throw Error(
        fmt::format("the stride {} has no basis, but {} takes coordinates", to_string(stride), to_string(a)));
  Fold<I> f{{}, shape.value(), stride.value()};
  std::vector<BasicLayout<I>> modes = detail::modes(a);
  for (size_t i = 0; i + 1 < modes.size(); ++i) compose_mode(f, modes[i].shape().value(), modes[i].stride());
  if (f.result.empty() || !is(f.rest_shape, 1))
    f.result.push_back(BasicLayout<I>(f.rest_shape, scale(f.rest_stride, modes.back().stride())));
  return unwrap(f.result);
}

// Multiplies adjacent sizes into one size if both are known or both are unknown.
template <class I>
BasicTuple<I> coalesce_shape(const BasicTuple<I>& shape) {
  std::vector<BasicTuple<I>> result;
  for (const BasicTuple<I>& s : leaves(shape))
    if (!result.empty() && known(result.back().value()).has_value() == known(s.value()).has_value())
      result.back() = LayoutInteger<I>::multiply(result.back().value(), s.value());
    else
      result.push_back(s);
  return result.size() == 1 ? result[0] : BasicTuple<I>(result);
}

// Returns the strides of coalesced modes in sorted order, each with the index of its mode.
template <class I>
struct Sorted {
  int64_t stride;
  size_t mode;
};
template <class I>
std::vector<Sorted<I>> sort_strides(const std::vector<BasicLayout<I>>& modes, bool all_known) {
  std::vector<Sorted<I>> sorted;
  for (size_t i = 0; i < modes.size(); ++i) {
    const BasicTuple<I>& stride = modes[i].stride();
    if (!stride.basis().empty()) throw Error(fmt::format("the stride {} has a basis", to_string(stride)));
    if (std::optional<int64_t> d = known(stride.value()))
      sorted.push_back({*d, i});
    else if (all_known)
      throw Error(fmt::format("stride {} of the {} modes must be known", i, modes.size()));
  }
  // Sorts by exchanges, as in CuTe, because the order of modes with equal strides determines which mode an
  // inverse uses.
  for (size_t i = 0; i < sorted.size(); ++i)
    for (size_t j = i + 1; j < sorted.size(); ++j)
      if (sorted[j].stride < sorted[i].stride) std::swap(sorted[i], sorted[j]);
  return sorted;
}

// Returns, for each mode, the product of the shapes of the previous modes.
template <class I>
std::vector<I> prefix_products(const std::vector<BasicLayout<I>>& modes) {
  std::vector<I> products{I(int64_t{1})};
  for (const BasicLayout<I>& mode : modes)
    products.push_back(LayoutInteger<I>::multiply(products.back(), mode.shape().value()));
  return products;
}

}  // namespace detail

template <class I>
BasicLayout<I> coalesce(const BasicLayout<I>& layout) {
  return detail::coalesce(layout, false);
}

template <class I>
BasicLayout<I> coalesce(const BasicLayout<I>& layout, TupleArgument<I> profile) {
  return detail::naming(
      "coalesce", [&] { return detail::coalesce(layout, profile, false); }, layout, profile);
}

template <class I>
BasicLayout<I> filter_zeros(const BasicLayout<I>& layout) {
  if (layout.shape().is_tuple()) {
    std::vector<BasicLayout<I>> modes;
    for (const BasicLayout<I>& mode : detail::modes(layout)) modes.push_back(filter_zeros(mode));
    return concatenate(modes);
  }
  if (detail::is(layout.stride().value(), 0)) return BasicLayout<I>(int64_t{1}, layout.stride());
  return layout;
}

template <class I>
BasicLayout<I> filter(const BasicLayout<I>& layout) {
  return coalesce(filter_zeros(layout));
}

template <class I>
BasicLayout<I> filter(const BasicLayout<I>& layout, TupleArgument<I> profile) {
  if (!profile.is_tuple()) return filter(layout);
  return detail::naming(
      "filter",
      [&] {
        return detail::by_mode(layout, profile.elements(), true,
                               [](const auto& l, const auto& p) { return filter<I>(l, p); });
      },
      layout, profile);
}

template <class I>
BasicLayout<I> composition(const BasicLayout<I>& a, TilerArgument<I> b) {
  if (b.is_underscore()) return a;
  return detail::naming(
      "composition",
      [&] {
        if (b.is_tuple())
          return detail::by_mode(a, b.modes(), false,
                                 [](const auto& l, const auto& t) { return composition<I>(l, t); });
        if (const I* n = b.integer())
          return detail::compose(detail::coalesce(a, true), BasicTuple<I>(*n), BasicTuple<I>(int64_t{1}));
        const BasicLayout<I>& l = *b.layout();
        BasicLayout<I> flat = detail::coalesce(a, detail::coprofile(l.stride()), true);
        return detail::compose(flat, l.shape(), l.stride());
      },
      a, b);
}

template <class I>
BasicLayout<I> complement(const BasicLayout<I>& layout, TupleArgument<I> cotarget) {
  using N = LayoutInteger<I>;
  return detail::naming(
      "complement",
      [&] {
        BasicLayout<I> filtered = filter(layout);
        if (detail::is(filtered.stride()[0].value(), 0) && !filtered.shape().is_tuple())
          return make_layout<I>(detail::coalesce_shape(cotarget));
        std::vector<BasicLayout<I>> modes = detail::modes(filtered), result;
        if (modes.size() > 1) {
          std::vector<BasicLayout<I>> ordered;
          for (auto [stride, mode] : detail::sort_strides(modes, true)) ordered.push_back(modes[mode]);
          modes = std::move(ordered);
        }
        I end(int64_t{1});  // end of the range that the processed modes fill
        for (const BasicLayout<I>& mode : modes) {
          const I& stride = mode.stride().value();
          std::optional<int64_t> d = detail::known(stride);
          if (!mode.stride().basis().empty() || (d && *d < 0))
            throw Error(
                fmt::format("the stride {} must be positive and without basis", to_string(mode.stride())));
          I gap = N::divide(stride, end);
          if (detail::is(gap, 0))
            throw Error(
                fmt::format("the mode {} begins before offset {}, up to which other modes reach: the layout "
                            "yields an offset twice",
                            to_string(mode), N::text(end)));
          result.push_back(BasicLayout<I>(gap, end));
          end = N::multiply(stride, mode.shape().value());
        }
        BasicTuple<I> rest = detail::coalesce_shape(ceil_div<I>(cotarget, BasicTuple<I>(end)));
        result.push_back(BasicLayout<I>(rest, compact_column_major(rest, end)));
        return coalesce(concatenate(result));
      },
      layout, cotarget);
}

template <class I>
BasicLayout<I> complement(const BasicLayout<I>& layout) {
  return complement<I>(layout, BasicTuple<I>(cosize(filter(layout))));
}

template <class I>
BasicLayout<I> right_inverse(const BasicLayout<I>& layout) {
  return detail::naming(
      "right_inverse",
      [&] {
        std::vector<BasicLayout<I>> modes = detail::modes(coalesce(layout)), result{BasicLayout<I>()};
        std::vector<I> before = detail::prefix_products(modes);
        I end(int64_t{1});
        for (auto [stride, mode] : detail::sort_strides(modes, false)) {
          if (!detail::is(end, stride)) continue;
          const I& shape = modes[mode].shape().value();
          result.push_back(BasicLayout<I>(shape, before[mode]));
          end = LayoutInteger<I>::multiply(shape, I(stride));
        }
        return coalesce(concatenate(result));
      },
      layout);
}

template <class I>
BasicLayout<I> left_inverse(const BasicLayout<I>& layout) {
  return detail::naming(
      "left_inverse",
      [&] {
        std::vector<BasicLayout<I>> modes = detail::modes(coalesce(layout));
        std::vector<I> before = detail::prefix_products(modes);
        std::vector<BasicTuple<I>> shapes, strides{int64_t{0}};
        int64_t filled = 1;  // product of the shapes of the processed modes
        size_t last = 0;
        for (auto [stride, mode] : detail::sort_strides(modes, true)) {
          last = mode;
          if (stride == 0) continue;
          if (stride < 0) throw Error(fmt::format("the stride {} must be positive", stride));
          if (stride % filled != 0)
            throw Error(
                fmt::format("the stride {} must be a multiple of the stride {} below it", stride, filled));
          shapes.push_back(stride / filled);
          strides.push_back(before[mode]);
          filled = stride;
        }
        shapes.push_back(modes[last].shape());
        return coalesce(BasicLayout<I>(BasicTuple<I>(shapes), BasicTuple<I>(strides)));
      },
      layout);
}

template <class I>
BasicLayout<I> nullspace(const BasicLayout<I>& layout) {
  std::vector<BasicLayout<I>> modes = detail::leaf_modes(layout), result;
  std::vector<I> before = detail::prefix_products(modes);
  for (size_t i = 0; i < modes.size(); ++i)
    if (detail::is(modes[i].stride().value(), 0)) {
      bool one = detail::is(modes[i].shape().value(), 1);
      result.push_back(BasicLayout<I>(modes[i].shape(), one ? I(int64_t{0}) : before[i]));
    }
  return result.empty() ? BasicLayout<I>() : detail::unwrap(result);
}

template <class I>
BasicLayout<I> max_common_layout(const BasicLayout<I>& a, LayoutArgument<I> b) {
  BasicLayout<I> inverse = right_inverse<I>(b), common = coalesce(composition<I>(a, inverse))[0];
  if (!detail::known(common.shape().value()) ||
      !detail::known_equal(common.stride(), BasicTuple<I>(int64_t{1})))
    return BasicLayout<I>();
  return composition<I>(inverse, common);
}

template <class I>
I max_common_vector(const BasicLayout<I>& a, LayoutArgument<I> b) {
  BasicLayout<I> common = coalesce(composition<I>(a, right_inverse<I>(b)))[0];
  if (!detail::known(common.shape().value()) ||
      !detail::known_equal(common.stride(), BasicTuple<I>(int64_t{1})))
    return int64_t{1};
  return common.shape().value();
}

template <class I>
int64_t max_alignment(const BasicLayout<I>& layout) {
  std::vector<IntTuple> shapes, strides;
  for (const BasicLayout<I>& mode : detail::modes(coalesce(layout))) {
    shapes.push_back(detail::known(mode.shape().value()).value_or(1));
    strides.push_back(detail::known(mode.stride().value()).value_or(0));
  }
  Layout flat{IntTuple(shapes), IntTuple(strides)};
  Layout permuted = logical_divide(flat, right_inverse(flat));
  int64_t result = size(permuted[0]);
  for (const IntTuple& d : leaves(permuted[1].stride())) result = std::gcd(result, d.value());
  return result;
}

namespace detail {

inline void check_ratio(int64_t n) {
  if (n < 1) throw Error(fmt::format("elements become {} times as wide; the factor must be at least 1", n));
}

template <class I>
BasicLayout<I> upcast_mode(const BasicLayout<I>& mode, int64_t n) {
  using N = LayoutInteger<I>;
  std::optional<int64_t> d = known(mode.stride().value());
  if (!d)
    return BasicLayout<I>(mode.shape(), with_value(mode.stride(), N::divide(mode.stride().value(), I(n))));
  if (*d == 0) return mode;
  if (*d % n != 0 && n % *d != 0)
    throw Error(fmt::format("of the stride {} and {}, one must divide the other", *d, n));
  if (*d == INT64_MIN) throw Error(fmt::format("the stride {} is out of range", *d));
  int64_t magnitude = *d < 0 ? -*d : *d, wide = ceil_div_integer(magnitude, n);
  I shape = ceil_div_integer(mode.shape().value(), I(ceil_div_integer(n, magnitude)));
  return BasicLayout<I>(shape, with_value(mode.stride(), I(*d < 0 ? -wide : wide)));
}

template <class I>
BasicLayout<I> downcast_mode(const BasicLayout<I>& mode, int64_t n) {
  using N = LayoutInteger<I>;
  const BasicTuple<I>& stride = mode.stride();
  if (is(stride.value(), 1) || is(stride.value(), -1))
    return BasicLayout<I>(N::multiply(mode.shape().value(), I(n)), stride);
  return BasicLayout<I>(mode.shape(), scale(I(n), stride));
}

// Applies f to each mode that is not a tuple.
template <class I>
BasicLayout<I> transform_modes(const BasicLayout<I>& layout, int64_t n,
                               BasicLayout<I> (*f)(const BasicLayout<I>&, int64_t)) {
  if (!layout.shape().is_tuple()) return f(layout, n);
  std::vector<BasicLayout<I>> result;
  for (const BasicLayout<I>& mode : modes(layout)) result.push_back(transform_modes(mode, n, f));
  return concatenate(result);
}

}  // namespace detail

template <class I>
BasicLayout<I> upcast(const BasicLayout<I>& layout, int64_t n) {
  return detail::naming(
      "upcast",
      [&] {
        detail::check_ratio(n);
        return detail::transform_modes(layout, n, detail::upcast_mode<I>);
      },
      layout, IntTuple(n));
}

template <class I>
BasicLayout<I> downcast(const BasicLayout<I>& layout, int64_t n) {
  return detail::naming(
      "downcast",
      [&] {
        detail::check_ratio(n);
        std::vector<BasicTuple<I>> strides = leaves(layout.stride());
        if (std::none_of(strides.begin(), strides.end(), [](auto& d) { return detail::is(d.value(), 1); }))
          throw Error("no stride is 1, so no two elements are adjacent");
        return detail::transform_modes(layout, n, detail::downcast_mode<I>);
      },
      layout, IntTuple(n));
}

template <class I>
BasicLayout<I> recast(const BasicLayout<I>& layout, int64_t from_bits, int64_t to_bits) {
  if (from_bits < 1 || to_bits < 1)
    throw Error(fmt::format("recast: elements of {} bits as ones of {}: both must be at least 1", from_bits,
                            to_bits));
  int64_t common = std::gcd(from_bits, to_bits), up = to_bits / common, down = from_bits / common;
  BasicLayout<I> result = up == 1 ? layout : upcast(layout, up);
  return down == 1 ? result : downcast(result, down);
}

#define PTXBUILDER_INSTANTIATE_ALGEBRA(I)                                                 \
  template BasicLayout<I> coalesce<I>(const BasicLayout<I>&);                             \
  template BasicLayout<I> coalesce<I>(const BasicLayout<I>&, TupleArgument<I>);           \
  template BasicLayout<I> filter_zeros<I>(const BasicLayout<I>&);                         \
  template BasicLayout<I> filter<I>(const BasicLayout<I>&);                               \
  template BasicLayout<I> filter<I>(const BasicLayout<I>&, TupleArgument<I>);             \
  template BasicLayout<I> composition<I>(const BasicLayout<I>&, TilerArgument<I>);        \
  template BasicLayout<I> complement<I>(const BasicLayout<I>&, TupleArgument<I>);         \
  template BasicLayout<I> complement<I>(const BasicLayout<I>&);                           \
  template BasicLayout<I> right_inverse<I>(const BasicLayout<I>&);                        \
  template BasicLayout<I> left_inverse<I>(const BasicLayout<I>&);                         \
  template BasicLayout<I> nullspace<I>(const BasicLayout<I>&);                            \
  template BasicLayout<I> max_common_layout<I>(const BasicLayout<I>&, LayoutArgument<I>); \
  template I max_common_vector<I>(const BasicLayout<I>&, LayoutArgument<I>);              \
  template int64_t max_alignment<I>(const BasicLayout<I>&);                               \
  template BasicLayout<I> upcast<I>(const BasicLayout<I>&, int64_t);                      \
  template BasicLayout<I> downcast<I>(const BasicLayout<I>&, int64_t);                    \
  template BasicLayout<I> recast<I>(const BasicLayout<I>&, int64_t, int64_t);

}  // namespace ptxbuilder
