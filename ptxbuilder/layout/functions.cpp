// Implements the functions of layout expressions, and lists them in a table.
#include "ptxbuilder/layout/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "ptxbuilder/error.h"

namespace ptxbuilder::detail {
namespace {

using Arguments = std::vector<LayoutValue>;

// Returns a description of a value for messages, such as "the layout 4:1".
std::string describe(const LayoutValue& value) {
  constexpr const char* kinds[] = {"truth value", "tuple", "tiler", "layout", "swizzled layout", "swizzle"};
  const IntTuple* tuple = std::get_if<IntTuple>(&value);
  const char* kind = tuple && !tuple->is_tuple() ? "integer" : kinds[value.index()];
  return fmt::format("the {} {}", kind, to_string(value));
}

[[noreturn]] void unwanted(const LayoutValue& value, const char* wanted) {
  throw Error(fmt::format("{} is given, but {} is expected", describe(value), wanted));
}

int as_int(const LayoutValue& value) {
  int64_t i = as_integer(value);
  if (!std::in_range<int>(i)) throw Error(fmt::format("{} is out of range", i));
  return static_cast<int>(i);
}

// Applies f to a layout. If the layout has a swizzle, f is applied to the layout without the swizzle.
template <class F>
LayoutValue below_swizzle(const LayoutValue& value, F f) {
  if (const ComposedLayout* c = std::get_if<ComposedLayout>(&value)) return c->with(f(c->layout()));
  return f(as_layout(value));
}

Layout layout_below_swizzle(const LayoutValue& value) {
  if (const ComposedLayout* c = std::get_if<ComposedLayout>(&value)) return c->layout();
  return as_layout(value);
}

// Returns a shape unchanged, or the shape of a layout.
IntTuple shape_of(const LayoutValue& value) {
  if (const IntTuple* tuple = std::get_if<IntTuple>(&value)) return *tuple;
  return layout_below_swizzle(value).shape();
}

LayoutValue make(const Arguments& a) {
  if (a.size() == 1) return LayoutValue(as_layout(a[0]));
  if (a.size() == 2 && std::holds_alternative<IntTuple>(a[0]) && std::holds_alternative<IntTuple>(a[1]))
    return Layout(as_tuple(a[0]), as_tuple(a[1]));
  std::vector<Layout> modes;
  for (const LayoutValue& value : a) modes.push_back(as_layout(value));
  return concatenate(modes);
}

LayoutValue compact_order_of(const Arguments& a) {
  return make_ordered_layout(as_tuple(a[0]), as_tuple(a[1]));
}

int64_t common_vector(const Arguments& a) {
  int64_t vector = max_common_vector(layout_below_swizzle(a[0]), layout_below_swizzle(a[1]));
  const ComposedLayout* x = std::get_if<ComposedLayout>(&a[0]);
  const ComposedLayout* y = std::get_if<ComposedLayout>(&a[1]);
  if (x && y && x->swizzle() == y->swizzle()) return vector;
  for (const ComposedLayout* c : {x, y})
    if (c) vector = std::min(vector, int64_t{1} << c->swizzle().base());
  return vector;
}

LayoutValue recast_of(const LayoutValue& value, int64_t from, int64_t to) {
  if (const XorSwizzle* s = std::get_if<XorSwizzle>(&value)) return recast(*s, from, to);
  if (const ComposedLayout* c = std::get_if<ComposedLayout>(&value)) return recast(*c, from, to);
  return recast(as_layout(value), from, to);
}

LayoutValue crd2idx_of(const Arguments& a) {
  if (a.size() == 3) return image(as_tuple(a[0]), as_tuple(a[1]), as_tuple(a[2]));
  if (std::holds_alternative<IntTuple>(a[1])) return IntTuple(crd2idx(as_tuple(a[0]), as_tuple(a[1])));
  return apply_layout(a[1], as_tuple(a[0]));
}

LayoutValue idx2crd_of(const Arguments& a) {
  if (a.size() == 3) return idx2crd(as_tuple(a[0]), as_tuple(a[1]), as_tuple(a[2]));
  if (std::holds_alternative<IntTuple>(a[1])) return idx2crd(as_tuple(a[0]), as_tuple(a[1]));
  Layout layout = as_layout(a[1]);
  return idx2crd(as_tuple(a[0]), layout.shape(), layout.stride());
}

struct Entry {
  LayoutFunction function;
  size_t least, most;  // minimum and maximum number of arguments
  LayoutValue (*call)(const Arguments&);
};

// Wrappers for functions whose arguments are a layout, a layout and a tiler, or a layout and an optional
// profile.
#define OF_LAYOUT(name)                                                  \
  +[](const Arguments& a) -> LayoutValue {                               \
    return below_swizzle(a[0], [](const Layout& l) { return name(l); }); \
  }
#define OF_PLAIN_LAYOUT(name) +[](const Arguments& a) -> LayoutValue { return name(as_layout(a[0])); }
#define BY_TILER(name)                                                                    \
  +[](const Arguments& a) -> LayoutValue {                                                \
    return below_swizzle(a[0], [&](const Layout& l) { return name(l, as_tiler(a[1])); }); \
  }
#define BY_LAYOUT(name)                                                                    \
  +[](const Arguments& a) -> LayoutValue {                                                 \
    return below_swizzle(a[0], [&](const Layout& l) { return name(l, as_layout(a[1])); }); \
  }
#define BY_PROFILE(name)                                                                           \
  +[](const Arguments& a) -> LayoutValue {                                                         \
    return below_swizzle(                                                                          \
        a[0], [&](const Layout& l) { return a.size() == 1 ? name(l) : name(l, as_tuple(a[1])); }); \
  }
#define NUMBER(expression) +[](const Arguments& a) -> LayoutValue { return IntTuple(int64_t{expression}); }

const Entry entries[] = {
    {{"size(L)", "elements of a shape or layout"}, 1, 1, NUMBER(size(shape_of(a[0])))},
    {{"cosize(L)", "one more than the largest offset"}, 1, 1, NUMBER(cosize(layout_below_swizzle(a[0])))},
    {{"rank(L)", "modes"}, 1, 1, NUMBER(rank(shape_of(a[0])))},
    {{"depth(L)", "levels of tuples"}, 1, 1, NUMBER(depth(shape_of(a[0])))},
    {{"shape(L)", "the shape"}, 1, 1, [](const Arguments& a) -> LayoutValue { return shape_of(a[0]); }},
    {{"stride(L)", "the strides"},
     1,
     1,
     [](const Arguments& a) -> LayoutValue { return as_layout(a[0]).stride(); }},
    {{"coshape(L)", "cosize by mode of the coordinates that L yields"},
     1,
     1,
     [](const Arguments& a) -> LayoutValue { return coshape(as_layout(a[0])); }},
    {{"get(L, i)", "mode i"},
     2,
     2,
     [](const Arguments& a) -> LayoutValue {
       int i = as_int(a[1]);
       if (i < 0) throw Error(fmt::format("there is no mode {}", i));
       return below_swizzle(a[0], [&](const Layout& l) { return l[static_cast<size_t>(i)]; });
     }},
    {{"make_layout(S[, D])", "a compact layout, or S:D; make_layout(L, M, ..): each a mode"}, 1, 64, make},
    {{"make_ordered_layout(S, order)", "compact, the mode of least order contiguous"},
     2,
     2,
     compact_order_of},
    {{"make_row_major_layout(S)", "compact, the last mode contiguous"},
     1,
     1,
     [](const Arguments& a) -> LayoutValue { return make_row_major_layout(as_tuple(a[0])); }},
    {{"make_identity_layout(S)", "every coordinate to itself"},
     1,
     1,
     [](const Arguments& a) -> LayoutValue { return make_identity_layout(shape_of(a[0])); }},
    {{"make_layout_like(L)", "compact, in the order of L's strides"},
     1,
     1,
     OF_PLAIN_LAYOUT(make_layout_like)},
    {{"crd2idx(c, S[, D])", "the offset of coordinate c"}, 2, 3, crd2idx_of},
    {{"idx2crd(i, S[, D])", "the coordinate of index i"}, 2, 3, idx2crd_of},
    {{"crd2crd(c, S, T)", "the coordinate into T with c's index in S"},
     3,
     3,
     [](const Arguments& a) -> LayoutValue {
       return crd2crd(as_tuple(a[0]), shape_of(a[1]), shape_of(a[2]));
     }},
    {{"slice(c, L)", "the modes at _"},
     2,
     2,
     [](const Arguments& a) -> LayoutValue {
       if (const ComposedLayout* c = std::get_if<ComposedLayout>(&a[1])) return slice(as_tiler(a[0]), *c);
       return slice(as_tiler(a[0]), as_layout(a[1]));
     }},
    {{"dice(c, L)", "the modes not at _"},
     2,
     2,
     [](const Arguments& a) -> LayoutValue {
       return below_swizzle(a[1], [&](const Layout& l) { return dice(as_tiler(a[0]), l); });
     }},
    {{"coalesce(L[, profile])", "the same function with fewest modes"}, 1, 2, BY_PROFILE(coalesce)},
    {{"filter_zeros(L)", "modes of stride 0 get size 1"}, 1, 1, OF_LAYOUT(filter_zeros)},
    {{"filter(L[, profile])", "without modes of stride 0 or size 1"}, 1, 2, BY_PROFILE(filter)},
    {{"composition(A, B)", "A(B(c)); B a layout, a tiler, or A a swizzle"},
     2,
     2,
     [](const Arguments& a) { return compose(a[0], a[1]); }},
    {{"complement(L[, n])", "what L leaves out below n, by default its cosize"},
     1,
     2,
     [](const Arguments& a) -> LayoutValue {
       Layout l = layout_below_swizzle(a[0]);
       return a.size() == 1 ? complement(l) : complement(l, shape_of(a[1]));
     }},
    {{"right_inverse(L)", "L(R(i)) = i"}, 1, 1, OF_PLAIN_LAYOUT(right_inverse)},
    {{"left_inverse(L)", "L(R(L(i))) = L(i)"}, 1, 1, OF_PLAIN_LAYOUT(left_inverse)},
    {{"nullspace(L)", "where L is 0"}, 1, 1, OF_PLAIN_LAYOUT(nullspace)},
    {{"logical_divide(L, T)", "tiles of L: (tile, rest) by mode"}, 2, 2, BY_TILER(logical_divide)},
    {{"zipped_divide(L, T)", "((tiles), (rests))"}, 2, 2, BY_TILER(zipped_divide)},
    {{"tiled_divide(L, T)", "((tiles), rest, rest, ..)"}, 2, 2, BY_TILER(tiled_divide)},
    {{"flat_divide(L, T)", "(tile, .., rest, ..)"}, 2, 2, BY_TILER(flat_divide)},
    {{"logical_product(L, T)", "repetitions of L: (block, repetition) by mode"},
     2,
     2,
     BY_TILER(logical_product)},
    {{"zipped_product(L, T)", "((blocks), (repetitions))"}, 2, 2, BY_TILER(zipped_product)},
    {{"tiled_product(L, T)", "((blocks), repetition, ..)"}, 2, 2, BY_TILER(tiled_product)},
    {{"flat_product(L, T)", "(block, .., repetition, ..)"}, 2, 2, BY_TILER(flat_product)},
    {{"blocked_product(L, M)", "L at every element of M: (block, repetition) in each mode"},
     2,
     2,
     BY_LAYOUT(blocked_product)},
    {{"raked_product(L, M)", "the same, interleaved: (repetition, block)"}, 2, 2, BY_LAYOUT(raked_product)},
    {{"tile_to_shape(L, S[, order])", "L repeated up to shape S, by default along mode 0 first"},
     2,
     3,
     [](const Arguments& a) -> LayoutValue {
       return below_swizzle(a[0], [&](const Layout& l) {
         return a.size() == 2 ? tile_to_shape(l, shape_of(a[1]))
                              : tile_to_shape(l, shape_of(a[1]), as_tuple(a[2]));
       });
     }},
    {{"max_common_layout(A, B)", "R with A(R(i)) = B(R(i)) = i"},
     2,
     2,
     [](const Arguments& a) -> LayoutValue { return max_common_layout(as_layout(a[0]), as_layout(a[1])); }},
    {{"max_common_vector(A, B)", "its size"},
     2,
     2,
     [](const Arguments& a) -> LayoutValue { return IntTuple(common_vector(a)); }},
    {{"max_alignment(L)", "the largest n for upcast"}, 1, 1, NUMBER(max_alignment(as_layout(a[0])))},
    {{"upcast(L, n)", "of elements n times as wide"},
     2,
     2,
     [](const Arguments& a) { return recast_of(a[0], 1, as_integer(a[1])); }},
    {{"downcast(L, n)", "of elements, each divided into n"},
     2,
     2,
     [](const Arguments& a) { return recast_of(a[0], as_integer(a[1]), 1); }},
    {{"recast(L, from_bits, to_bits)",
      "of elements of from_bits as elements of to_bits: recast(8:1, 32, 16) is 16:1"},
     3,
     3,
     [](const Arguments& a) { return recast_of(a[0], as_integer(a[1]), as_integer(a[2])); }},
    {{"flatten(L)", "all modes on one level"}, 1, 1, OF_LAYOUT(flatten)},
    {{"take(L, begin, end)", "modes begin to end - 1"},
     3,
     3,
     [](const Arguments& a) {
       return below_swizzle(a[0], [&](const Layout& l) { return take(l, as_int(a[1]), as_int(a[2])); });
     }},
    {{"group(L, begin, end)", "modes begin to end - 1 as one"},
     3,
     3,
     [](const Arguments& a) {
       return below_swizzle(a[0], [&](const Layout& l) { return group(l, as_int(a[1]), as_int(a[2])); });
     }},
    {{"append(L, M)", "with M as one more mode"},
     2,
     2,
     [](const Arguments& a) {
       return below_swizzle(a[0], [&](const Layout& l) { return append(l, as_layout(a[1])); });
     }},
    {{"prepend(L, M)", "with M as the first mode"},
     2,
     2,
     [](const Arguments& a) {
       return below_swizzle(a[0], [&](const Layout& l) { return prepend(l, as_layout(a[1])); });
     }},
    {{"zip(L[, M])", "((A,a),(B,b)) to ((A,B),(a,b))"},
     1,
     2,
     [](const Arguments& a) -> LayoutValue {
       if (a.size() == 2) return zip(as_layout(a[0]), as_layout(a[1]));
       return below_swizzle(a[0], [](const Layout& l) { return zip(l); });
     }},
    {{"ceil_div(S, T)", "S / T, rounded up"},
     2,
     2,
     [](const Arguments& a) -> LayoutValue { return ceil_div(as_tuple(a[0]), as_tuple(a[1])); }},
    {{"congruent(S, T)", "the same structure"},
     2,
     2,
     [](const Arguments& a) -> LayoutValue { return congruent(shape_of(a[0]), shape_of(a[1])); }},
    {{"weakly_congruent(S, T)", "T's structure continues below S's integers"},
     2,
     2,
     [](const Arguments& a) -> LayoutValue { return weakly_congruent(shape_of(a[0]), shape_of(a[1])); }},
    {{"compatible(S, T)", "coordinates into S are coordinates into T"},
     2,
     2,
     [](const Arguments& a) -> LayoutValue { return compatible(shape_of(a[0]), shape_of(a[1])); }},
};

std::string_view name_of(const Entry& e) {
  return e.function.signature.substr(0, e.function.signature.find('('));
}

bool has_underscore(const LayoutValue& value) {
  std::function<bool(const Tiler&)> find = [&](const Tiler& t) {
    return t.is_underscore() || (t.is_tuple() && std::any_of(t.modes().begin(), t.modes().end(), find));
  };
  const Tiler* tiler = std::get_if<Tiler>(&value);
  return tiler && find(*tiler);
}

}  // namespace

Layout as_layout(const LayoutValue& value) {
  if (const Layout* layout = std::get_if<Layout>(&value)) return *layout;
  if (const IntTuple* shape = std::get_if<IntTuple>(&value)) return make_layout(*shape);
  unwanted(value, "a layout or shape");
}

IntTuple as_tuple(const LayoutValue& value) {
  if (const IntTuple* tuple = std::get_if<IntTuple>(&value)) return *tuple;
  unwanted(value, "an integer or a tuple of integers");
}

int64_t as_integer(const LayoutValue& value) {
  const IntTuple* tuple = std::get_if<IntTuple>(&value);
  if (!tuple || tuple->is_tuple()) unwanted(value, "an integer");
  return tuple->value();
}

Tiler as_tiler(const LayoutValue& value) {
  if (const Tiler* tiler = std::get_if<Tiler>(&value)) return *tiler;
  if (const Layout* layout = std::get_if<Layout>(&value)) return *layout;
  if (const IntTuple* shape = std::get_if<IntTuple>(&value)) return *shape;
  unwanted(value, "a layout, a shape or a tiler");
}

LayoutValue apply_layout(const LayoutValue& f, const LayoutValue& coordinate) {
  if (const XorSwizzle* s = std::get_if<XorSwizzle>(&f)) return IntTuple((*s)(as_integer(coordinate)));
  if (const ComposedLayout* c = std::get_if<ComposedLayout>(&f)) {
    if (has_underscore(coordinate)) return slice(as_tiler(coordinate), *c);
    return IntTuple((*c)(as_tuple(coordinate)));
  }
  Layout layout = as_layout(f);
  if (has_underscore(coordinate)) return slice(as_tiler(coordinate), layout);
  return image(as_tuple(coordinate), layout);
}

LayoutValue compose(const LayoutValue& a, const LayoutValue& b) {
  const XorSwizzle* swizzle = std::get_if<XorSwizzle>(&a);
  if (!swizzle) return below_swizzle(a, [&](const Layout& l) { return composition(l, as_tiler(b)); });
  if (swizzle->bits() == 0) return as_layout(b);
  return ComposedLayout(*swizzle, 0, as_layout(b));
}

LayoutValue call_layout_function(std::string_view name, const std::vector<LayoutValue>& arguments) {
  for (const Entry& e : entries) {
    if (name_of(e) != name) continue;
    if (arguments.size() < e.least || arguments.size() > e.most)
      throw Error(fmt::format("{} takes {}{} arguments, not {}", e.function.signature, e.least,
                              e.least == e.most ? "" : fmt::format(" to {}", e.most), arguments.size()));
    return e.call(arguments);
  }
  std::string all;
  for (const Entry& e : entries) all.append(all.empty() ? "" : ", ").append(name_of(e));
  throw Error(fmt::format("there is no function {}; the functions are {}", name, all));
}

}  // namespace ptxbuilder::detail

namespace ptxbuilder {

std::vector<LayoutFunction> layout_functions() {
  std::vector<LayoutFunction> all;
  for (const detail::Entry& e : detail::entries) all.push_back(e.function);
  return all;
}

}  // namespace ptxbuilder
