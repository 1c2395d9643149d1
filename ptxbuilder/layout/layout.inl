// Implements the functions of layout.h that make and edit layouts, for the files that instantiate them.
#pragma once

#include "ptxbuilder/layout/int_tuple.inl"
#include "ptxbuilder/layout/layout.h"

namespace ptxbuilder {
namespace detail {

// Adds the function and its arguments to the front of an Error's message.
template <class F, class... Arguments>
auto naming(const char* function, F body, const Arguments&... arguments) {
  try {
    return body();
  } catch (const Error& e) {
    std::string list;
    for (const std::string& text : {to_string(arguments)...})
      list.append(list.empty() ? "" : ", ").append(text);
    std::string why = e.what();
    if (e.where()) why.resize(why.rfind(" ("));  // drops the source line, which the new Error appends again
    throw Error(fmt::format("{}({}): {}", function, list, why));
  }
}

template <class I>
std::vector<BasicLayout<I>> modes(const BasicLayout<I>& layout) {
  std::vector<BasicLayout<I>> all;
  for (int i = 0; i < rank(layout); ++i) all.push_back(layout[static_cast<size_t>(i)]);
  return all;
}

template <class I>
std::vector<BasicLayout<I>> leaf_modes(const BasicLayout<I>& layout) {
  std::vector<BasicLayout<I>> all;
  std::vector<BasicTuple<I>> shapes = leaves(layout.shape()), strides = leaves(layout.stride());
  for (size_t i = 0; i < shapes.size(); ++i) all.push_back(BasicLayout<I>(shapes[i], strides[i]));
  return all;
}

// Returns a single mode unchanged, or several modes as a tuple.
template <class I>
BasicLayout<I> unwrap(const std::vector<BasicLayout<I>>& modes) {
  return modes.size() == 1 ? modes[0] : concatenate(modes);
}

inline void check_range(const char* function, int begin, int end, int rank) {
  if (begin < 0 || begin >= end || end > rank)
    throw Error(
        fmt::format("{}: the modes [{}, {}) are not in a layout of rank {}", function, begin, end, rank));
}

// Applies f(layout mode, profile mode) to each mode of the profile. If `keep_rest` is true, further modes of
// the layout are appended.
template <class I, class Profile, class F>
BasicLayout<I> by_mode(const BasicLayout<I>& layout, const std::vector<Profile>& profile, bool keep_rest,
                       F f) {
  if (static_cast<int>(profile.size()) > rank(layout))
    throw Error(fmt::format("{} modes are given for a layout of rank {}", profile.size(), rank(layout)));
  std::vector<BasicLayout<I>> all = modes(layout), result;
  for (size_t i = 0; i < profile.size(); ++i) result.push_back(f(all[i], profile[i]));
  if (keep_rest) result.insert(result.end(), all.begin() + static_cast<long>(profile.size()), all.end());
  return concatenate(result);
}

template <class I>
BasicTuple<I> unflatten(const BasicTuple<I>& profile, const std::vector<BasicTuple<I>>& flat, size_t& next) {
  if (!profile.is_tuple()) return flat.at(next++);
  return transform(profile, [&](const BasicTuple<I>& e) { return unflatten(e, flat, next); });
}

// Returns the modes at `_`, or all other modes, in one flat list.
template <class I>
void cut(const BasicTiler<I>& coordinate, const BasicLayout<I>& layout, bool underscores,
         std::vector<BasicLayout<I>>& kept) {
  if (coordinate.layout())
    throw Error(
        fmt::format("the layout {} is given, but an integer or _ is expected", to_string(coordinate)));
  if (!coordinate.is_tuple()) {
    if (coordinate.is_underscore() == underscores) kept.push_back(layout);
    return;
  }
  if (!layout.shape().is_tuple() || static_cast<int>(coordinate.modes().size()) != rank(layout))
    throw Error(fmt::format("the coordinate {} does not fit the shape {}", to_string(coordinate),
                            to_string(layout.shape())));
  for (size_t i = 0; i < coordinate.modes().size(); ++i)
    cut(coordinate.modes()[i], layout[i], underscores, kept);
}

template <class I>
BasicLayout<I> cut(const char* function, const BasicTiler<I>& coordinate, const BasicLayout<I>& layout,
                   bool underscores) {
  return naming(
      function,
      [&] {
        std::vector<BasicLayout<I>> kept;
        cut(coordinate, layout, underscores, kept);
        if (kept.empty())
          throw Error(underscores ? "the coordinate has no _" : "the coordinate has no integer");
        return coordinate.is_tuple() ? concatenate(kept) : kept[0];
      },
      coordinate, layout);
}

template <class I>
BasicTuple<I> underscores_as_zero(const BasicTiler<I>& coordinate) {
  if (coordinate.is_underscore()) return int64_t{0};
  if (const I* i = coordinate.integer()) return *i;
  std::vector<BasicTuple<I>> result;
  for (const BasicTiler<I>& e : coordinate.modes()) result.push_back(underscores_as_zero(e));
  return BasicTuple<I>(std::move(result));
}

}  // namespace detail

template <class I>
BasicLayout<I>::BasicLayout(BasicTuple<I> shape, BasicTuple<I> stride)
    : shape_(std::move(shape)), stride_(std::move(stride)) {
  if (!congruent(shape_, stride_))
    throw Error(fmt::format("the layout {}:{}: shape and stride must be nested alike", to_string(shape_),
                            to_string(stride_)));
  for (const BasicTuple<I>& s : leaves(shape_))
    if (std::optional<int64_t> n = detail::known(s.value()); (n && *n < 1) || !s.basis().empty())
      throw Error(fmt::format("the layout {}:{}: a shape is at least 1, not {}", to_string(shape_),
                              to_string(stride_), to_string(s)));
  ptxbuilder::size(shape_);  // throws Error if the size exceeds 64 bits
}

template <class I>
BasicLayout<I> BasicLayout<I>::operator[](size_t i) const {
  const BasicTuple<I>& shape = shape_[i];  // read before the stride, so that an error refers to the shape
  return BasicLayout(shape, stride_[i]);
}

template <class I>
BasicTiler<I>::BasicTiler(const BasicTuple<I>& shape) : value_(I(int64_t{0})) {
  if (!shape.is_tuple()) {
    value_ = shape.value();
    return;
  }
  std::vector<BasicTiler> modes;
  for (const BasicTuple<I>& e : shape.elements()) modes.push_back(BasicTiler(e));
  value_ = std::move(modes);
}

template <class I>
BasicTiler<I>::BasicTiler(std::vector<BasicTiler> modes) : value_(std::move(modes)) {
  if (this->modes().empty()) throw Error("a tiler has at least one mode");
}

template <class I>
const std::vector<BasicTiler<I>>& BasicTiler<I>::modes() const {
  if (!is_tuple()) throw Error(fmt::format("{} is given, but a tuple is expected", to_string(*this)));
  return std::get<std::vector<BasicTiler>>(value_);
}

template <class I>
std::string to_string(const BasicLayout<I>& layout) {
  return fmt::format("{}:{}", to_string(layout.shape()), to_string(layout.stride()));
}

template <class I>
std::string to_string(const BasicTiler<I>& tiler) {
  if (tiler.is_underscore()) return "_";
  if (const I* i = tiler.integer()) return LayoutInteger<I>::text(*i);
  if (const BasicLayout<I>* layout = tiler.layout()) return to_string(*layout);
  std::string text;
  for (const BasicTiler<I>& e : tiler.modes()) text.append(text.empty() ? "<" : ",").append(to_string(e));
  text += ">";
  return text;
}

template <class I>
BasicLayout<I> make_layout(TupleArgument<I> shape) {
  return BasicLayout<I>(shape, compact_column_major(shape));
}

template <class I>
BasicLayout<I> make_layout(TupleArgument<I> shape, TupleArgument<I> stride) {
  return BasicLayout<I>(shape, stride);
}

template <class I>
BasicLayout<I> make_row_major_layout(TupleArgument<I> shape) {
  return BasicLayout<I>(shape, compact_row_major(shape));
}

template <class I>
BasicLayout<I> make_ordered_layout(TupleArgument<I> shape, const IntTuple& order) {
  return detail::naming(
      "make_ordered_layout", [&] { return BasicLayout<I>(shape, compact_order(shape, order)); }, shape,
      order);
}

template <class I>
BasicLayout<I> make_identity_layout(TupleArgument<I> shape) {
  return BasicLayout<I>(shape, basis_like(shape));
}

template <class I>
BasicLayout<I> concatenate(const std::vector<BasicLayout<I>>& modes) {
  std::vector<BasicTuple<I>> shapes, strides;
  for (const BasicLayout<I>& mode : modes) {
    shapes.push_back(mode.shape());
    strides.push_back(mode.stride());
  }
  return BasicLayout<I>(BasicTuple<I>(std::move(shapes)), BasicTuple<I>(std::move(strides)));
}

template <class I>
BasicLayout<I> make_layout_like(const BasicLayout<I>& layout) {
  std::vector<IntTuple> flat;
  for (const BasicTuple<I>& d : leaves(layout.stride())) {
    std::optional<int64_t> stride = detail::known(d.value());
    if (!stride || !d.basis().empty())
      throw Error(fmt::format("make_layout_like({}): the strides must be known and without basis",
                              to_string(layout)));
    flat.push_back(*stride);
  }
  // The modes of stride 0, which filter_zeros() has given size 1, are first in the order, so their strides
  // become 0.
  std::vector<BasicLayout<I>> all = detail::leaf_modes(filter_zeros(layout));
  std::vector<BasicTuple<I>> shapes;
  for (const BasicLayout<I>& mode : all) shapes.push_back(mode.shape());
  std::vector<BasicTuple<I>> strides = leaves(compact_order(BasicTuple<I>(shapes), IntTuple(flat)));
  size_t next = 0;
  return BasicLayout<I>(layout.shape(), detail::unflatten(layout.shape(), strides, next));
}

template <class I>
BasicTuple<I> coshape(const BasicLayout<I>& layout) {
  using N = LayoutInteger<I>;
  BasicTuple<I> sum(int64_t{0});
  for (const BasicLayout<I>& mode : detail::leaf_modes(layout)) {
    BasicTuple<I> stride = mode.stride();
    if (std::optional<int64_t> d = detail::known(stride.value()); d && *d < 0)
      stride = detail::scale(I(int64_t{-1}), stride);
    I last = N::subtract(mode.shape().value(), I(int64_t{1}));
    sum = detail::add_coordinates(sum, detail::as_coordinate(detail::scale(last, stride)));
  }
  auto plus_one = [](auto self, const BasicTuple<I>& t) -> BasicTuple<I> {
    if (!t.is_tuple()) return N::add(t.value(), I(int64_t{1}));
    return detail::transform(t, [&](const BasicTuple<I>& e) { return self(self, e); });
  };
  return plus_one(plus_one, sum);
}

template <class I>
I cosize(const BasicLayout<I>& layout) {
  return detail::naming(
      "cosize", [&] { return size(coshape(layout)); }, layout);
}

template <class I>
BasicLayout<I> flatten(const BasicLayout<I>& layout) {
  return BasicLayout<I>(flatten(layout.shape()), flatten(layout.stride()));
}

template <class I>
BasicLayout<I> unflatten(const BasicLayout<I>& layout, TupleArgument<I> profile) {
  if (depth(layout) > 1 || leaves(profile).size() != static_cast<size_t>(rank(layout)))
    throw Error(
        fmt::format("unflatten({}, {}): the layout must be flat, with a mode for each integer of the profile",
                    to_string(layout), to_string(profile)));
  size_t shape = 0, stride = 0;
  return BasicLayout<I>(detail::unflatten(profile, leaves(layout.shape()), shape),
                        detail::unflatten(profile, leaves(layout.stride()), stride));
}

template <class I>
BasicLayout<I> take(const BasicLayout<I>& layout, int begin, int end) {
  detail::check_range("take", begin, end, rank(layout));
  std::vector<BasicLayout<I>> all = detail::modes(layout);
  return concatenate(std::vector<BasicLayout<I>>(all.begin() + begin, all.begin() + end));
}

template <class I>
BasicLayout<I> select(const BasicLayout<I>& layout, const std::vector<int>& modes) {
  std::vector<BasicLayout<I>> chosen;
  for (int i : modes) {
    detail::check_range("select", i, i + 1, rank(layout));
    chosen.push_back(layout[static_cast<size_t>(i)]);
  }
  return concatenate(chosen);
}

template <class I>
BasicLayout<I> group(const BasicLayout<I>& layout, int begin, int end) {
  detail::check_range("group", begin, end, rank(layout));
  std::vector<BasicLayout<I>> all = detail::modes(layout);
  BasicLayout<I> grouped = take(layout, begin, end);
  all.erase(all.begin() + begin, all.begin() + end);
  all.insert(all.begin() + begin, grouped);
  return concatenate(all);
}

namespace detail {

template <class I>
BasicLayout<I> pad(const BasicLayout<I>& layout, const BasicLayout<I>& mode, int to_rank, bool at_the_end) {
  if (to_rank != 0 && (to_rank < rank(layout) || to_rank > 64))
    throw Error(fmt::format("append or prepend: a layout of rank {} cannot be padded to rank {} (at most 64)",
                            rank(layout), to_rank));
  if (to_rank == rank(layout)) return layout;
  std::vector<BasicLayout<I>> all = modes(layout);
  size_t count = to_rank == 0 ? 1 : static_cast<size_t>(to_rank) - all.size();
  all.insert(at_the_end ? all.end() : all.begin(), count, mode);
  return concatenate(all);
}

}  // namespace detail

template <class I>
BasicLayout<I> append(const BasicLayout<I>& layout, LayoutArgument<I> mode, int to_rank) {
  return detail::pad(layout, mode, to_rank, true);
}

template <class I>
BasicLayout<I> prepend(const BasicLayout<I>& layout, LayoutArgument<I> mode, int to_rank) {
  return detail::pad(layout, mode, to_rank, false);
}

template <class I>
BasicLayout<I> replace(const BasicLayout<I>& layout, int i, LayoutArgument<I> mode) {
  detail::check_range("replace", i, i + 1, rank(layout));
  if (!layout.shape().is_tuple()) return mode;
  std::vector<BasicLayout<I>> all = detail::modes(layout);
  all[static_cast<size_t>(i)] = mode;
  return concatenate(all);
}

template <class I>
BasicLayout<I> zip(const BasicLayout<I>& layout) {
  if (!layout.shape().is_tuple()) return layout;
  // As in CuTe, a tuple that has no modes to exchange becomes a single mode.
  if (!layout.shape()[0].is_tuple()) return concatenate(std::vector<BasicLayout<I>>{layout});
  std::vector<std::vector<BasicLayout<I>>> gathered(layout.shape()[0].elements().size());
  for (const BasicLayout<I>& mode : detail::modes(layout)) {
    if (mode.shape().elements().size() != gathered.size())
      throw Error(fmt::format("zip({}): the modes must have one rank", to_string(layout)));
    for (size_t i = 0; i < gathered.size(); ++i) gathered[i].push_back(mode[i]);
  }
  std::vector<BasicLayout<I>> result;
  for (const auto& modes : gathered) result.push_back(concatenate(modes));
  return concatenate(result);
}

template <class I>
BasicLayout<I> zip(const BasicLayout<I>& a, LayoutArgument<I> b) {
  return zip(concatenate(std::vector<BasicLayout<I>>{a, b}));
}

template <class I>
BasicLayout<I> slice(TilerArgument<I> coordinate, const BasicLayout<I>& layout) {
  return detail::cut("slice", coordinate, layout, true);
}

template <class I>
BasicLayout<I> dice(TilerArgument<I> coordinate, const BasicLayout<I>& layout) {
  return detail::cut("dice", coordinate, layout, false);
}

template <class I>
I slice_offset(TilerArgument<I> coordinate, const BasicLayout<I>& layout) {
  return layout(detail::underscores_as_zero(coordinate));
}

#define PTXBUILDER_INSTANTIATE_LAYOUT(I)                                             \
  template class BasicLayout<I>;                                                     \
  template class BasicTiler<I>;                                                      \
  template std::string to_string<I>(const BasicLayout<I>&);                          \
  template std::string to_string<I>(const BasicTiler<I>&);                           \
  template BasicLayout<I> make_layout<I>(TupleArgument<I>);                          \
  template BasicLayout<I> make_layout<I>(TupleArgument<I>, TupleArgument<I>);        \
  template BasicLayout<I> make_row_major_layout<I>(TupleArgument<I>);                \
  template BasicLayout<I> make_ordered_layout<I>(TupleArgument<I>, const IntTuple&); \
  template BasicLayout<I> make_identity_layout<I>(TupleArgument<I>);                 \
  template BasicLayout<I> make_layout_like<I>(const BasicLayout<I>&);                \
  template BasicLayout<I> concatenate<I>(const std::vector<BasicLayout<I>>&);        \
  template I cosize<I>(const BasicLayout<I>&);                                       \
  template BasicTuple<I> coshape<I>(const BasicLayout<I>&);                          \
  template BasicLayout<I> flatten<I>(const BasicLayout<I>&);                         \
  template BasicLayout<I> unflatten<I>(const BasicLayout<I>&, TupleArgument<I>);     \
  template BasicLayout<I> take<I>(const BasicLayout<I>&, int, int);                  \
  template BasicLayout<I> select<I>(const BasicLayout<I>&, const std::vector<int>&); \
  template BasicLayout<I> group<I>(const BasicLayout<I>&, int, int);                 \
  template BasicLayout<I> append<I>(const BasicLayout<I>&, LayoutArgument<I>, int);  \
  template BasicLayout<I> prepend<I>(const BasicLayout<I>&, LayoutArgument<I>, int); \
  template BasicLayout<I> replace<I>(const BasicLayout<I>&, int, LayoutArgument<I>); \
  template BasicLayout<I> zip<I>(const BasicLayout<I>&);                             \
  template BasicLayout<I> zip<I>(const BasicLayout<I>&, LayoutArgument<I>);          \
  template BasicLayout<I> slice<I>(TilerArgument<I>, const BasicLayout<I>&);         \
  template BasicLayout<I> dice<I>(TilerArgument<I>, const BasicLayout<I>&);          \
  template I slice_offset<I>(TilerArgument<I>, const BasicLayout<I>&);

}  // namespace ptxbuilder
