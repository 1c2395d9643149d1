// Implements the divides and products of layout.h, for the files that instantiate them.
#pragma once

#include "ptxbuilder/layout/algebra.inl"

namespace ptxbuilder {
namespace detail {

// Gathers the halves of the modes that a tiler has split: ((A,a),(B,b),C) becomes ((A,B),(a,b,C)).
template <class I>
BasicLayout<I> unzip(const BasicLayout<I>& layout, const BasicTiler<I>& tiler) {
  if (tiler.is_underscore()) return concatenate(std::vector<BasicLayout<I>>{BasicLayout<I>(), layout});
  if (!tiler.is_tuple()) return layout;
  std::vector<BasicLayout<I>> first, second, all = modes(layout);
  for (size_t i = 0; i < all.size(); ++i) {
    if (i >= tiler.modes().size()) {
      second.push_back(all[i]);
      continue;
    }
    BasicLayout<I> split = unzip(all[i], tiler.modes()[i]);
    first.push_back(split[0]);
    second.push_back(split[1]);
  }
  return concatenate(std::vector<BasicLayout<I>>{concatenate(first), concatenate(second)});
}

// Unpacks mode 1 into separate modes and, if `both` is true, mode 0 too. A tuple of one element remains a
// tuple, as in CuTe.
template <class I>
BasicLayout<I> unpack(const BasicLayout<I>& zipped, bool both) {
  std::vector<BasicLayout<I>> result;
  for (size_t i : {0, 1}) {
    if ((i == 0 && !both) || rank(zipped[i]) == 1) {
      result.push_back(zipped[i]);
      continue;
    }
    for (const BasicLayout<I>& mode : modes(zipped[i])) result.push_back(mode);
  }
  return concatenate(result);
}

template <class I>
BasicLayout<I> divide(const BasicLayout<I>& layout, const BasicTiler<I>& tiler) {
  if (tiler.is_underscore()) return layout;
  if (tiler.is_tuple())
    return by_mode(layout, tiler.modes(), true, [](const auto& l, const auto& t) { return divide(l, t); });
  BasicLayout<I> tile = tiler.layout() ? *tiler.layout() : make_layout<I>(*tiler.integer());
  BasicLayout<I> rest = complement<I>(tile, coalesce(layout).shape());
  return composition<I>(layout, concatenate(std::vector<BasicLayout<I>>{tile, rest}));
}

template <class I>
BasicLayout<I> product(const BasicLayout<I>& block, const BasicTiler<I>& tiler) {
  if (tiler.is_underscore()) return block;
  if (tiler.is_tuple())
    return by_mode(block, tiler.modes(), true, [](const auto& l, const auto& t) { return product(l, t); });
  BasicLayout<I> tile = tiler.layout() ? *tiler.layout() : make_layout<I>(*tiler.integer());
  BasicLayout<I> free =
      complement<I>(block, BasicTuple<I>(LayoutInteger<I>::multiply(size(block), cosize(tile))));
  return concatenate(std::vector<BasicLayout<I>>{block, composition<I>(free, tile)});
}

template <class I>
BasicLayout<I> padded_product(const BasicLayout<I>& block, const BasicLayout<I>& tiler) {
  int common = std::max(rank(block), rank(tiler));
  return product<I>(append<I>(block, {}, common), append<I>(tiler, {}, common));
}

}  // namespace detail

#define PTXBUILDER_FORMS(name, splits)                                                   \
  template <class I>                                                                     \
  BasicLayout<I> logical_##name(const BasicLayout<I>& layout, TilerArgument<I> tiler) {  \
    return detail::naming(                                                               \
        "logical_" #name, [&] { return detail::splits(layout, tiler); }, layout, tiler); \
  }                                                                                      \
  template <class I>                                                                     \
  BasicLayout<I> zipped_##name(const BasicLayout<I>& layout, TilerArgument<I> tiler) {   \
    return detail::unzip(logical_##name<I>(layout, tiler), tiler);                       \
  }                                                                                      \
  template <class I>                                                                     \
  BasicLayout<I> tiled_##name(const BasicLayout<I>& layout, TilerArgument<I> tiler) {    \
    return detail::unpack(zipped_##name<I>(layout, tiler), false);                       \
  }                                                                                      \
  template <class I>                                                                     \
  BasicLayout<I> flat_##name(const BasicLayout<I>& layout, TilerArgument<I> tiler) {     \
    return detail::unpack(zipped_##name<I>(layout, tiler), true);                        \
  }
PTXBUILDER_FORMS(divide, divide)
PTXBUILDER_FORMS(product, product)
#undef PTXBUILDER_FORMS

template <class I>
BasicLayout<I> blocked_product(const BasicLayout<I>& block, LayoutArgument<I> tiler) {
  return detail::naming(
      "blocked_product",
      [&] {
        BasicLayout<I> result = detail::padded_product<I>(block, tiler);
        return zip<I>(result[0], result[1]);
      },
      block, tiler);
}

template <class I>
BasicLayout<I> raked_product(const BasicLayout<I>& block, LayoutArgument<I> tiler) {
  return detail::naming(
      "raked_product",
      [&] {
        BasicLayout<I> result = detail::padded_product<I>(block, tiler);
        return zip<I>(result[1], result[0]);
      },
      block, tiler);
}

namespace detail {

template <class I, class F>
BasicLayout<I> tile_to_shape_by(const BasicLayout<I>& block, const BasicTuple<I>& shape, F layout_of) {
  if (rank(block) > rank(shape))
    throw Error(fmt::format("the block has rank {}, above the shape's {}", rank(block), rank(shape)));
  BasicLayout<I> padded = append<I>(block, {}, rank(shape));
  std::vector<BasicTuple<I>> repetitions;
  for (size_t i = 0; i < static_cast<size_t>(rank(shape)); ++i) {
    I part = size(padded[i]), whole = size(shape[i]);
    std::optional<int64_t> p = known(part), w = known(whole);
    if (p && w && *w % *p != 0)
      throw Error(fmt::format("in mode {} the block's {} does not divide the shape's {}", i, *p, *w));
    repetitions.push_back(ceil_div_integer(whole, part));
  }
  BasicTuple<I> count = shape.is_tuple() ? BasicTuple<I>(repetitions) : repetitions[0];
  return blocked_product<I>(padded, layout_of(count));
}

}  // namespace detail

template <class I>
BasicLayout<I> tile_to_shape(const BasicLayout<I>& block, TupleArgument<I> shape) {
  return detail::naming(
      "tile_to_shape",
      [&] {
        return detail::tile_to_shape_by<I>(block, shape,
                                           [](const auto& count) { return make_layout<I>(count); });
      },
      block, shape);
}

template <class I>
BasicLayout<I> tile_to_shape(const BasicLayout<I>& block, TupleArgument<I> shape, const IntTuple& order) {
  return detail::naming(
      "tile_to_shape",
      [&] {
        return detail::tile_to_shape_by<I>(
            block, shape, [&](const auto& count) { return make_ordered_layout<I>(count, order); });
      },
      block, shape, order);
}

#define PTXBUILDER_INSTANTIATE_TILING(I)                                                \
  template BasicLayout<I> logical_divide<I>(const BasicLayout<I>&, TilerArgument<I>);   \
  template BasicLayout<I> zipped_divide<I>(const BasicLayout<I>&, TilerArgument<I>);    \
  template BasicLayout<I> tiled_divide<I>(const BasicLayout<I>&, TilerArgument<I>);     \
  template BasicLayout<I> flat_divide<I>(const BasicLayout<I>&, TilerArgument<I>);      \
  template BasicLayout<I> logical_product<I>(const BasicLayout<I>&, TilerArgument<I>);  \
  template BasicLayout<I> zipped_product<I>(const BasicLayout<I>&, TilerArgument<I>);   \
  template BasicLayout<I> tiled_product<I>(const BasicLayout<I>&, TilerArgument<I>);    \
  template BasicLayout<I> flat_product<I>(const BasicLayout<I>&, TilerArgument<I>);     \
  template BasicLayout<I> blocked_product<I>(const BasicLayout<I>&, LayoutArgument<I>); \
  template BasicLayout<I> raked_product<I>(const BasicLayout<I>&, LayoutArgument<I>);   \
  template BasicLayout<I> tile_to_shape<I>(const BasicLayout<I>&, TupleArgument<I>);    \
  template BasicLayout<I> tile_to_shape<I>(const BasicLayout<I>&, TupleArgument<I>, const IntTuple&);

}  // namespace ptxbuilder
