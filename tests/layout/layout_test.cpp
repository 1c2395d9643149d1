// Tests the layout algebra: its laws on thousands of random layouts, examples from CuTe's documentation,
// swizzles, and errors with their accepted twins.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "error_kit.h"
#include "layout_kit.h"
#include "ptxbuilder/layout/draw.h"

namespace ptxbuilder::test::layout_test {
namespace {

constexpr int kRounds = 4000;

std::string eval(std::string_view text) { return to_string(evaluate_layout(text)); }

// Returns f(i) for all i below the size.
std::vector<int64_t> table(const Layout& layout) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < size(layout); ++i) result.push_back(layout(i));
  return result;
}

// Returns the first i below n for which `law` does not hold, or -1 if there is none.
template <class F>
int64_t broken_at(int64_t n, F law) {
  for (int64_t i = 0; i < n; ++i)
    if (!law(i)) return i;
  return -1;
}

template <class F>
std::optional<Layout> accepted(F f) {
  try {
    return f();
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Returns whether b's offsets are places of `a`, and b's strides and extents divide the modes of `a` evenly,
// so that nothing is rounded up.
bool cuts_evenly(const Layout& a, const Layout& b) {
  if (cosize(b) > size(a)) return false;
  for (size_t k = 0; k < leaves(b.shape()).size(); ++k) {
    int64_t stride = leaves(b.stride())[k].value(), rest = leaves(b.shape())[k].value();
    if (stride == 0) continue;
    for (const IntTuple& s : leaves(coalesce(a).shape())) {
      int64_t m = s.value(), part = std::max<int64_t>(1, m / stride);
      if (m % stride != 0 && stride % m != 0) return false;
      if (part > 1 && rest > 1 && rest % std::min(part, rest) != 0) return false;
      rest = std::max<int64_t>(1, rest / part);
      stride = (stride + m - 1) / m;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("coordinates and indices convert to each other and back") {
  CAPTURE(layout_seed());
  LayoutMaker make(layout_seed());
  for (int round = 0; round < kRounds; ++round) {
    IntTuple shape = make.shape(3);
    Layout layout = make.layout(shape, LayoutMaker::any);
    CAPTURE(to_string(layout));
    int64_t i = make.pick(static_cast<int>(size(shape)));
    IntTuple c = idx2crd(i, shape);
    REQUIRE(congruent(c, shape));
    REQUIRE(crd2idx(c, shape) == i);
    REQUIRE(layout(c) == layout(i));
    REQUIRE(idx2crd(i, shape, make_layout(shape).stride()) == c);
    REQUIRE(image(IntTuple(i), make_identity_layout(shape)) == c);
    REQUIRE(crd2crd(c, shape, size(shape)) == IntTuple(i));
    REQUIRE(crd2crd(i, size(shape), shape) == c);
    REQUIRE(crd2crd(c, shape, shape) == c);
    // The offset must follow its definition: the sum of coordinate times stride.
    int64_t sum = 0;
    std::vector<IntTuple> cs = leaves(c), ds = leaves(layout.stride());
    for (size_t k = 0; k < cs.size(); ++k) sum += cs[k].value() * ds[k].value();
    REQUIRE(layout(i) == sum);
  }
}

TEST_CASE("coalesce and filter keep the function") {
  CAPTURE(layout_seed());
  LayoutMaker make(layout_seed());
  for (int round = 0; round < kRounds; ++round) {
    Layout layout = make.layout();
    CAPTURE(to_string(layout));
    Layout c = coalesce(layout);
    REQUIRE(depth(c) <= 1);
    REQUIRE(table(c) == table(layout));
    REQUIRE(coalesce(c) == c);
    for (int k = 0; k + 1 < rank(c); ++k) {  // no modes are left to merge
      Layout m = c[static_cast<size_t>(k)], n = c[static_cast<size_t>(k) + 1];
      REQUIRE(size(m) * m.stride().value() != n.stride().value());
    }
    if (layout.shape().is_tuple()) {
      Layout by_mode = coalesce(layout, IntTuple(std::vector<IntTuple>(layout.shape().elements().size(), 1)));
      REQUIRE(rank(by_mode) == rank(layout));
      REQUIRE(table(by_mode) == table(layout));
    }
    std::vector<int64_t> all = table(layout), kept = table(filter(layout));
    REQUIRE(std::set<int64_t>(all.begin(), all.end()) == std::set<int64_t>(kept.begin(), kept.end()));
    REQUIRE(size(nullspace(layout)) * size(filter_zeros(layout)) == size(layout));
    Layout zeros = nullspace(layout);
    REQUIRE(broken_at(size(zeros), [&](int64_t i) { return layout(zeros(i)) == 0; }) == -1);
  }
}

TEST_CASE("composition is a(b(c)), compatible with b") {
  CAPTURE(layout_seed());
  LayoutMaker make(layout_seed());
  int checked = 0;
  for (int round = 0; round < kRounds; ++round) {
    Layout a = make.layout(), b = make.layout(make.shape(2, 2), LayoutMaker::gaps);
    if (!cuts_evenly(a, b)) continue;
    CAPTURE(to_string(a));
    CAPTURE(to_string(b));
    ++checked;
    Layout r = composition(a, b);
    REQUIRE(compatible(b.shape(), r.shape()));
    REQUIRE(broken_at(size(b), [&](int64_t i) { return r(i) == a(b(i)); }) == -1);
  }
  REQUIRE(checked > kRounds / 10);
}

TEST_CASE("the complement fills the gaps of a layout, in order") {
  CAPTURE(layout_seed());
  LayoutMaker make(layout_seed());
  int checked = 0;
  for (int round = 0; round < kRounds; ++round) {
    Layout layout = make.layout(static_cast<LayoutMaker::Kind>(make.pick(3)));  // injective except for zeros
    int64_t n = cosize(layout) * (1 + make.pick(3));
    CAPTURE(to_string(layout));
    CAPTURE(n);
    Layout rest = complement(layout, n);
    CAPTURE(to_string(rest));
    std::vector<int64_t> r = table(rest), l = table(filter(layout));
    REQUIRE(std::is_sorted(r.begin(), r.end()));
    REQUIRE(std::adjacent_find(r.begin(), r.end()) == r.end());
    REQUIRE(size(rest) >= n / size(filter(layout)));
    // All sums differ, and reach every offset below n.
    std::vector<int64_t> sums;
    for (int64_t x : r)
      for (int64_t y : l) sums.push_back(x + y);
    std::sort(sums.begin(), sums.end());
    REQUIRE(std::adjacent_find(sums.begin(), sums.end()) == sums.end());
    REQUIRE(static_cast<int64_t>(sums.size()) >= n);
    REQUIRE(broken_at(n, [&](int64_t i) { return sums[static_cast<size_t>(i)] == i; }) == -1);
    ++checked;
  }
  REQUIRE(checked == kRounds);
}

TEST_CASE("inverses reverse a layout") {
  CAPTURE(layout_seed());
  LayoutMaker make(layout_seed());
  int lefts = 0;
  for (int round = 0; round < kRounds; ++round) {
    Layout layout = make.layout();
    CAPTURE(to_string(layout));
    Layout right = right_inverse(layout);
    REQUIRE(broken_at(size(right), [&](int64_t i) { return layout(right(i)) == i; }) == -1);
    Layout compact = make.layout(layout.shape(), LayoutMaker::compact);
    REQUIRE(size(right_inverse(compact)) == size(compact));
    Layout injective = make.layout(layout.shape(), static_cast<LayoutMaker::Kind>(make.pick(3)));
    CAPTURE(to_string(injective));
    if (std::optional<Layout> left = accepted([&] { return left_inverse(injective); })) {
      ++lefts;
      REQUIRE(broken_at(size(injective),
                        [&](int64_t i) { return injective((*left)(injective(i))) == injective(i); }) == -1);
    }
    Layout other = make.layout(layout.shape(), LayoutMaker::compact);
    Layout common = max_common_layout(compact, other);
    REQUIRE(max_common_vector(compact, other) == size(common));
    REQUIRE(broken_at(size(common),
                      [&](int64_t i) { return compact(common(i)) == i && other(common(i)) == i; }) == -1);
  }
  REQUIRE(lefts > kRounds / 2);
}

TEST_CASE("divides and products follow from composition and complement") {
  CAPTURE(layout_seed());
  LayoutMaker make(layout_seed());
  int divided = 0, permuted = 0, multiplied = 0;
  for (int round = 0; round < kRounds; ++round) {
    Layout a = make.layout(), b = make.layout(make.shape(1, 2), LayoutMaker::gaps);
    CAPTURE(to_string(a));
    CAPTURE(to_string(b));
    if (auto d = accepted([&] { return logical_divide(a, b); })) {
      ++divided;
      Layout rest = complement(b, coalesce(a).shape());
      REQUIRE(*d == composition(a, concatenate<int64_t>({b, rest})));
      REQUIRE(zipped_divide(a, b) == *d);
      REQUIRE(table(tiled_divide(a, b)) == table(*d));
      REQUIRE(table(flat_divide(a, b)) == table(*d));
      if (cuts_evenly(a, b) && cuts_evenly(a, rest)) {  // the same elements in a different order
        ++permuted;
        std::vector<int64_t> x = table(*d), y = table(a);
        std::sort(x.begin(), x.end());
        std::sort(y.begin(), y.end());
        REQUIRE(x == y);
      }
    }
    if (auto p = accepted([&] { return logical_product(a, b); })) {
      ++multiplied;
      REQUIRE((*p)[0] == a);
      REQUIRE((*p)[1] == composition(complement(a, size(a) * cosize(b)), b));
      REQUIRE(table(flat_product(a, b)) == table(*p));
      auto blocked = accepted([&] { return blocked_product(a, b); });
      auto raked = accepted([&] { return raked_product(a, b); });
      if (blocked && raked) {
        std::vector<int64_t> x = table(*blocked), y = table(*p), z = table(*raked);
        for (auto* all : {&x, &y, &z}) std::sort(all->begin(), all->end());
        REQUIRE(x == y);
        REQUIRE(z == y);
      }
    }
  }
  REQUIRE(divided > kRounds / 2);
  REQUIRE(permuted > kRounds / 20);
  REQUIRE(multiplied > kRounds / 3);
}

TEST_CASE("by-mode divides collect tiles and remainders") {
  Layout a = make_layout({12, {4, 8}}, {59, {13, 1}});
  Tiler tiler{make_layout(3, 4), make_layout({2, 4}, {1, 8})};
  Layout logical = logical_divide(a, tiler), zipped = zipped_divide(a, tiler);
  for (size_t i : {0, 1})
    for (size_t half : {0, 1}) CHECK(logical[i][half] == zipped[half][i]);
  CHECK(rank(tiled_divide(a, tiler)) == 3);
  CHECK(rank(flat_divide(a, tiler)) == 4);
  CHECK(composition(a, tiler) == zipped[0]);
}

TEST_CASE("widening and narrowing elements keeps addresses") {
  CAPTURE(layout_seed());
  LayoutMaker make(layout_seed());
  int checked = 0;
  for (int round = 0; round < kRounds; ++round) {
    Layout layout = make.layout(static_cast<LayoutMaker::Kind>(make.pick(3)));
    CAPTURE(to_string(layout));
    int64_t n = make.one_of({2, 4, 8});
    std::vector<IntTuple> strides = leaves(layout.stride());
    auto ones = std::count(strides.begin(), strides.end(), IntTuple(1));
    auto narrow = accepted([&] { return downcast(layout, n); });
    REQUIRE(narrow.has_value() == (ones > 0));
    if (narrow) REQUIRE(upcast(*narrow, n) == layout);
    if (ones == 1) {
      ++checked;
      std::set<int64_t> parts, expected;
      for (int64_t x : table(*narrow)) parts.insert(x);
      for (int64_t x : table(layout))
        for (int64_t k = 0; k < n; ++k) expected.insert(x * n + k);
      REQUIRE(parts == expected);
    }
    int64_t widest = max_alignment(layout);
    REQUIRE(accepted([&] { return upcast(layout, widest); }).has_value());
  }
  REQUIRE(checked > kRounds / 4);
}

// Examples from CuTe's documentation (media/docs/cpp/cute: 01_layout, 02_layout_algebra).
TEST_CASE("known forms") {
  const std::map<std::string, std::string> forms = {
      {"make_layout((4,(2,2)))", "(4,(2,2)):(1,(4,8))"},
      {"make_row_major_layout((2,3,4))", "(2,3,4):(12,4,1)"},
      {"coalesce((2,(1,6)):(1,(6,2)))", "12:1"},
      {"coalesce((2,(1,6)):(1,(6,2)), (1,1))", "(2,6):(1,2)"},
      {"composition((6,2):(8,2), (4,3):(3,1))", "((2,2),3):((24,2),8)"},
      {"composition(20:2, (5,4):(4,1))", "(5,4):(8,2)"},
      {"composition((10,2):(16,4), (5,4):(1,5))", "(5,(2,2)):(16,(80,4))"},
      {"complement(4:1, 24)", "6:4"},
      {"complement(6:4, 24)", "4:1"},
      {"complement((4,6):(1,4), 24)", "1:0"},
      {"complement(4:2, 24)", "(2,3):(1,8)"},
      {"complement((2,4):(1,6), 24)", "3:2"},
      {"complement((2,2):(1,6), 24)", "(3,2):(2,12)"},
      {"logical_divide((4,2,3):(2,1,8), 4:2)", "((2,2),(2,3)):((4,1),(2,8))"},
      {"logical_divide((9,(4,8)):(59,(13,1)), <3:3,(2,4):(1,8)>)",
       "((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))"},
      {"zipped_divide((9,(4,8)):(59,(13,1)), <3:3,(2,4):(1,8)>)",
       "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))"},
      {"tiled_divide((9,(4,8)):(59,(13,1)), <3:3,(2,4):(1,8)>)",
       "((3,(2,4)),3,(2,2)):((177,(13,2)),59,(26,1))"},
      {"flat_divide((9,(4,8)):(59,(13,1)), <3:3,(2,4):(1,8)>)", "(3,(2,4),3,(2,2)):(177,(13,2),59,(26,1))"},
      {"zipped_product((2,2):(1,2), <2:1,2:1>)", "((2,2),(2,2)):((1,2),(2,1))"},
      {"tiled_product((2,2):(1,2), <2:1,2:1>)", "((2,2),2,2):((1,2),2,1)"},
      {"dice((1,_), (4,8):(1,4))", "(4):(1)"},
      {"slice((1,_), (4,8):(1,4))", "(8):(4)"},
      {"logical_product((2,2):(4,1), 6:1)", "((2,2),(2,3)):((4,1),(2,8))"},
      {"logical_product((2,2):(4,1), (4,2):(2,1))", "((2,2),(4,2)):((4,1),(8,2))"},
      {"blocked_product((2,5):(5,1), (3,4):(1,3))", "((2,3),(5,4)):((5,10),(1,30))"},
      {"raked_product((2,5):(5,1), (3,4):(1,3))", "((3,2),(4,5)):((10,5),(30,1))"},
      {"make_ordered_layout((2,3,4),(2,0,1))", "(2,3,4):(12,1,3)"},
      {"tile_to_shape((8,8):(8,1), (16,16))", "((8,2),(8,2)):((8,64),(1,128))"},
      {"tile_to_shape((8,8):(8,1), (16,16), (1,0))", "((8,2),(8,2)):((8,128),(1,64))"},
      {"idx2crd(16, (3,(2,3)))", "(1,(1,2))"},
      {"crd2idx((1,(1,2)), (3,(2,3)), (3,(12,1)))", "17"},
      {"((4,2):(1,4))(_,1)", "(4):(1)"},
      {"max_common_vector((4,8):(1,4), (4,8):(1,8))", "4"},
      {"recast((8,4):(1,8), 32, 16)", "(16,4):(1,16)"},
      {"recast((8,4):(1,8), 16, 32)", "(4,4):(1,4)"},
      {"composition(make_identity_layout((8,8)), (4,4):(1@1,2@0))", "(4,4):(1@1,2@0)"},
      {"cosize(make_identity_layout((4,8)))", "32"},
      {"make_layout_like((2,2,2,2):(0,2,4,1))", "(2,2,2,2):(0,2,4,1)"},
      {"compatible(24, (4,6))", "true"},
      {"compatible((4,6), 24)", "false"},
      {"weakly_congruent(4, (4,6))", "true"},
      {"congruent((4,6), (1,2))", "true"},
      {"group((2,3,4):(1,2,6), 0, 2)", "((2,3),4):((1,2),6)"},
      // CuTe C++ and pycute differ here.
      {"composition((4,8):(1,4), <2>)", "(2):(1)"},
      {"right_inverse((4,8):(0,1))", "8:4"},
      {"composition(1:1, 1:1)", "1:1"},
      {"make_layout((4,1))", "(4,1):(1,0)"},
      {"zipped_divide((8,6):(1,8), <4,_>)", "((4,1),(2,6)):((1,0),(4,8))"},
  };
  for (const auto& [expression, form] : forms) {
    CAPTURE(expression);
    CHECK(eval(expression) == form);
  }
}

TEST_CASE("a swizzle exchanges places within its span and is its own inverse") {
  for (auto [b, m, s] :
       {std::array{3, 4, 3}, {2, 4, 3}, {1, 4, 3}, {0, 4, 3}, {2, 0, 4}, {3, 1, -3}, {2, 3, -5}}) {
    XorSwizzle swizzle(b, m, s);
    CAPTURE(to_string(swizzle));
    std::set<int64_t> images;
    for (int64_t i = 0; i < 4096; ++i) {
      int64_t y = (i & swizzle.y_mask());
      REQUIRE(swizzle(i) == (i ^ (s >= 0 ? y >> s : y << -s)));
      REQUIRE(swizzle(swizzle(i)) == i);
      images.insert(swizzle(i));
    }
    REQUIRE(images.size() == 4096);
    REQUIRE(downcast(upcast(swizzle, 1), 1) == swizzle);
  }
  // PTX ISA, "Swizzling Modes": with 128 bytes, the 16-byte chunk moves by the 128-byte row modulo 8.
  for (int64_t row = 0; row < 16; ++row)
    for (int64_t chunk = 0; chunk < 8; ++chunk)
      CHECK(byte_swizzle(Swizzle::b128)(row * 128 + chunk * 16) == row * 128 + (chunk ^ row % 8) * 16);
  CHECK(upcast(byte_swizzle(Swizzle::b128), 2) == XorSwizzle(3, 3, 3));
  CHECK(eval("recast(Sw<3,4,3> o (8,64):(128,1), 8, 16)") == "Sw<3,3,3> o 0 o (8,32):(64,1)");
  CHECK(eval("Sw<1,0,1>(2)") == "3");
  CHECK(eval("(Sw<3,4,3> o (8,128):(128,1))(3,0)") == "432");
  CHECK(eval("(Sw<3,4,3> o (8,128):(128,1))(3,_)") == "Sw<3,4,3> o 384 o (128):(1)");
  CHECK(eval("((Sw<3,4,3> o (8,128):(128,1))(3,_))(17)") == eval("(Sw<3,4,3> o (8,128):(128,1))(3,17)"));
}

TEST_CASE("errors name the function, its arguments and the condition; the twin is accepted") {
  struct Misuse {
    const char *wrong, *phrase, *right;
  };
  const Misuse cases[] = {
      {"composition((4,6,8):(2,3,5), 6:5)", "the stride 5 must be below the shape 4 of 4:2",
       "composition((4,6,8):(2,3,5), 6:4)"},
      {"composition((4,8):(8,1), 3:2)", "2 of the 3 elements fit in the mode 4:8",
       "composition((4,8):(8,1), 4:2)"},
      {"complement((4,4):(1,2), 32)", "yields an offset twice", "complement((4,4):(1,4), 32)"},
      {"complement(4:-1, 8)", "must be positive", "complement(4:1, 8)"},
      {"left_inverse((4,2):(2,3))", "must be a multiple of", "left_inverse((4,2):(2,8))"},
      {"logical_divide((8,8), <2,2,2>)", "3 modes are given for a layout of rank 2",
       "logical_divide((8,8), <2,2>)"},
      {"tile_to_shape((8,8), (12,16))", "in mode 0 the block's 8 does not divide the shape's 12",
       "tile_to_shape((8,8), (24,16))"},
      {"upcast((8,2):(1,3), 2)", "of the stride 3 and 2, one must divide the other",
       "upcast((8,2):(1,4), 2)"},
      {"downcast(8:2, 2)", "no stride is 1", "downcast(8:1, 2)"},
      {"(4,8):(1,(4,2))", "must be nested alike", "(4,(2,4)):(1,(4,2))"},
      {"(4,0):(1,4)", "a shape is at least 1, not 0", "(4,1):(1,4)"},
      {"size((4294967296,4294967296))", "have 64 bits", "size((4294967296,1073741824))"},
      {"(4294967296,4294967296):(0,0)", "4294967296 * 4294967296 does not fit",
       "(4294967296,1073741824):(0,0)"},
      {"((4,8):(1,4))(1,2,3)", "has rank 3, the shape (4,8) has 2", "((4,8):(1,4))(1,2)"},
      {"((4,8):(1,4))(_,_,3)", "does not fit the shape", "((4,8):(1,4))(_,3)"},
      {"idx2crd(3, (2,4), (1,0))", "divides by zero", "idx2crd(3, (2,1), (1,0))"},
      {"Sw<3,4,2>", "S| at least B", "Sw<3,4,-3>"},
      {"right_inverse(Sw<3,4,3> o 1024:1)", "is given, but a layout or shape is expected",
       "right_inverse(1024:1)"},
      {"take((2,3,4), 1, 4)", "the modes [1, 4) are not in a layout of rank 3", "take((2,3,4), 1, 3)"},
      {"(4,4):(1@0,1) (5)", "strides without one", "(4,4):(1@0,1@1) (5)"},
  };
  for (const Misuse& c : cases) {
    std::string wrong = c.wrong;
    CAPTURE(wrong);
    CHECK_ERROR(evaluate_layout(c.wrong), c.phrase);
    CHECK(error_of([&] { evaluate_layout(c.right); }) == "");
  }
  CHECK_ERROR(composition(make_layout({4, 6}, {2, 3}), make_layout(6, 5)), "composition((4,6):(2,3), 6:5): ");
  CHECK_ERROR(make_layout({4, 8})[2], "there is no mode 2 in (4,8)");
  CHECK_ERROR(make_identity_layout({4, 8})(3), "yields coordinates, not offsets");
}

TEST_CASE("drawings contain every offset, and every value of every thread") {
  LayoutGrid grid = grid_of(evaluate_layout("Sw<2,0,2> o (4,(2,2)):(4,(1,2))"));
  REQUIRE((grid.rows == 4 && grid.columns == 4));
  CHECK(to_text(grid).find(" 3 | 15  14  13  12\n") != std::string::npos);
  // The accumulator of one warp of wgmma m64n8: PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16".
  Layout accumulator = make_layout({{4, 8}, {2, 2}}, {{32, 1}, {16, 8}});
  LayoutGrid held = thread_value_grid(accumulator, 16, 8);
  CHECK(held.at(0, 0).lines == std::vector<std::string>{"T0 V0"});
  CHECK(held.at(0, 7).lines == std::vector<std::string>{"T3 V1"});
  CHECK(held.at(9, 2).lines == std::vector<std::string>{"T5 V2"});
  CHECK(held.at(9, 2).colour == 5);
  std::string svg = to_svg(held), latex = to_latex(held);
  for (int thread = 0; thread < 32; ++thread)
    for (int v = 0; v < 4; ++v) {
      std::string text = fmt::format("T{} V{}", thread, v);
      CHECK(svg.find(fmt::format(">{}<", text)) != std::string::npos);
      CHECK(latex.find(fmt::format("{{{}}}", text)) != std::string::npos);
    }
  CHECK_ERROR(thread_value_grid(accumulator, 8, 8), "outside of the tile 8 x 8");
  CHECK_ERROR(thread_value_grid(make_layout({4, 2, 2}), 4, 4), "two modes");
  CHECK_ERROR(grid_of(evaluate_layout("(1024,1024)")), "not a layout");
  CHECK_ERROR(grid_of(evaluate_layout("make_layout((1024,1024))")), "a drawing must have 1 to 16384 cells");
}

}  // namespace ptxbuilder::test::layout_test
