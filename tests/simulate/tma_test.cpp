// Tests `ptxb tma` without its command line: the rules that a tensor map violates, the nearest legal map, and
// the places of a box's chunks.
#include "kernels/simulate/tma.h"

#include "error_kit.h"

namespace ptxbuilder::test::tma_test {
using namespace command;

namespace {

TmaWords legal() {
  TmaWords w;
  w.dtype = std::string("bf16");
  w.shape = {4096, 1024};
  w.box = {64, 128};
  w.swizzle = std::string("128");
  return w;
}

struct Case {
  const char* what;
  void (*breaks)(TmaWords&);
  void (*keeps)(TmaWords&);
  std::vector<const char*> texts;  // texts of the violations, in order
  void (*nearest)(TmaWords&);      // turns legal() into the nearest map
};

const Case cases[] = {
    {"a box wider than the swizzle",
     [](TmaWords& w) { w.box[0] = 96; },
     [](TmaWords& w) { w.box[0] = 32; },
     {"box[0] = 96 x bf16 = 192 B exceeds the span of swizzle 128, 128 B; at most 64 elements"},
     [](TmaWords&) {}},
    {"a box of odd bytes",
     [](TmaWords& w) { w.box[0] = 20; },
     [](TmaWords& w) { w.box[0] = 24; },
     {"box[0] = 20 x bf16 = 40 B is not a multiple of 16 B; nearest: 16 or 24 elements"},
     [](TmaWords& w) { w.box[0] = 24; }},
    {"a box of odd bytes that would grow too wide",
     [](TmaWords& w) { w.box[0] = 63, w.swizzle = std::string("64"); },
     [](TmaWords& w) { w.box[0] = 32, w.swizzle = std::string("64"); },
     {"box[0] = 63 x bf16 = 126 B is not a multiple of 16 B",
      "box[0] = 64 x bf16 = 128 B exceeds the span of swizzle 64"},
     [](TmaWords& w) { w.box[0] = 32, w.swizzle = std::string("64"); }},
    {"a box too high",
     [](TmaWords& w) { w.box[1] = 300; },
     [](TmaWords& w) { w.box[1] = 256; },
     {"box[1] = 300 is not in 1 to 256 elements; nearest: 256"},
     [](TmaWords& w) { w.box[1] = 256; }},
    {"an empty box",
     [](TmaWords& w) { w.box[1] = 0; },
     [](TmaWords& w) { w.box[1] = 1; },
     {"box[1] = 0 is not in 1 to 256 elements; nearest: 1"},
     [](TmaWords& w) { w.box[1] = 1; }},
    {"a stride that is not aligned",
     [](TmaWords& w) { w.strides = {8200}; },
     [](TmaWords& w) { w.strides = {8208}; },
     {"the stride of dimension 1, 8200 B, is not a multiple of 16 B; nearest: 8192 or 8208 B"},
     [](TmaWords& w) { w.strides = {8208}; }},
    {"rows without gaps that need padding",
     [](TmaWords& w) { w.shape[0] = 100; },
     [](TmaWords& w) { w.shape[0] = 104; },
     {"the stride of dimension 1, 200 B, is not a multiple of 16 B; nearest: 208 B"},
     [](TmaWords& w) { w.shape[0] = 100, w.strides = {208}; }},
    {"rows that overlap",
     [](TmaWords& w) { w.strides = {8176}; },
     [](TmaWords& w) { w.strides = {8192}; },
     {"the stride of dimension 1, 8176 B, is less than a row of 4096 x bf16 = 8192 B"},
     [](TmaWords& w) { w.strides = {8192}; }},
    {"rows that overlap, and no multiple",
     [](TmaWords& w) { w.strides = {8184}; },
     [](TmaWords& w) { w.strides = {8192}; },
     {"the stride of dimension 1, 8184 B, is less than a row of 4096 x bf16 = 8192 B"},
     [](TmaWords& w) { w.strides = {8192}; }},
    {"a stride beyond 2^40",
     [](TmaWords& w) { w.strides = {uint64_t{1} << 40}; },
     [](TmaWords& w) { w.strides = {(uint64_t{1} << 40) - 16}; },
     {"is not below 2^40 B"},
     [](TmaWords& w) { w.strides = {(uint64_t{1} << 40) - 16}; }},
    {"an element stride too long",
     [](TmaWords& w) {
       w.element_strides = {1, 9};
     },
     [](TmaWords& w) {
       w.element_strides = {1, 8};
     },
     {"element_strides[1] = 9 is not in 1 to 8; nearest: 8"},
     [](TmaWords& w) {
       w.element_strides = {1, 8};
     }},
    {"an element stride that TMA ignores",
     [](TmaWords& w) {
       w.element_strides = {2, 1};
     },
     [](TmaWords& w) {
       w.element_strides = {1, 1};
     },
     {"element_strides[0] = 2 would be ignored"},
     [](TmaWords&) {}},
    {"interleave of rank 2",
     [](TmaWords& w) { w.interleave = std::string("16"); },
     [](TmaWords&) {},
     {"the rank is 2 with interleave 16, but an interleaved map must have rank 3 to 5"},
     [](TmaWords&) {}},
    {"an extent too large",
     [](TmaWords& w) { w.shape[1] = (uint64_t{1} << 32) + 1; },
     [](TmaWords& w) { w.shape[1] = uint64_t{1} << 32; },
     {"shape[1] = 4294967297 is not in 1 to 2^32"},
     [](TmaWords& w) { w.shape[1] = uint64_t{1} << 32; }},
    {"everything at once",
     [](TmaWords& w) {
       w.box = {100, 0}, w.element_strides = {3, 3}, w.strides = {8190};
     },
     [](TmaWords&) {},
     {"box[1] = 0", "box[0] = 100 x bf16 = 200 B is not a multiple", "box[0] = 104 x bf16 = 208 B exceeds",
      "element_strides[0] = 3", "the stride of dimension 1, 8190 B"},
     [](TmaWords& w) {
       w.box = {64, 1}, w.element_strides = {1, 3}, w.strides = {8192};
     }},
};

std::vector<int> row(const TmaReport& r, size_t i) { return swizzled_rows(r.map.recipe).at(i).chunks; }

}  // namespace

TEST_CASE("each broken rule is reported with the nearest legal map, which is legal") {
  CHECK(examine(legal()).breaches.empty());
  for (const Case& c : cases) {
    CAPTURE(c.what);
    TmaWords broken = legal(), kept = legal(), wanted = legal();
    c.breaks(broken);
    c.keeps(kept);
    c.nearest(wanted);
    const TmaReport r = examine(broken);
    REQUIRE(r.breaches.size() == c.texts.size());
    for (size_t i = 0; i < c.texts.size(); ++i) {
      CAPTURE(r.breaches[i].text);
      CHECK(r.breaches[i].text.find(c.texts[i]) != std::string::npos);
    }
    REQUIRE(r.nearest);
    const TmaReport nearest = examine(wanted);
    CHECK(nearest.breaches.empty());
    CHECK(r.nearest->recipe == nearest.map.recipe);
    CHECK(r.nearest->shape == nearest.map.shape);
    CHECK(r.nearest->strides == nearest.map.strides);
    CHECK(examine(kept).breaches.empty());
  }
}

TEST_CASE("lists of the wrong length have no nearest map") {
  auto broken = [](auto change) {
    TmaWords w = legal();
    change(w);
    return examine(w);
  };
  const TmaReport shape = broken([](TmaWords& w) { w.shape = {4096}; });
  CHECK(shape.breaches.at(0).text == "the tensor has rank 1, the box has rank 2");
  CHECK_FALSE(shape.nearest);
  CHECK_FALSE(broken([](TmaWords& w) { w.strides = {8192, 8192}; }).nearest);
  CHECK_FALSE(broken([](TmaWords& w) { w.element_strides = {1}; }).nearest);
  CHECK_FALSE(broken([](TmaWords& w) { w.box = {}, w.shape = {}; }).nearest);
  CHECK(broken([](TmaWords&) {}).nearest);
}

TEST_CASE("words that are no type, swizzle or interleave are refused with the legal ones") {
  auto broken = [](auto change) {
    TmaWords w = legal();
    change(w);
    examine(w);
  };
  CHECK_ERROR(broken([](TmaWords& w) { w.dtype = std::string("half"); }),
              "--dtype half: it must be one of u8, s8, u16");
  CHECK_ERROR(broken([](TmaWords& w) { w.swizzle = std::string("96"); }),
              "--swizzle 96: it must be one of none, 32, 64, 128");
  CHECK_ERROR(broken([](TmaWords& w) { w.interleave = std::string("8"); }),
              "--interleave 8: it must be one of none, 16, 32");
  CHECK_NOTHROW(broken([](TmaWords&) {}));
}

TEST_CASE("chunks lie where the swizzle puts them") {
  auto with = [](const char* swizzle, uint32_t inner) {
    TmaWords w = legal();
    w.swizzle = std::string(swizzle);
    w.box = {inner, 128};
    return examine(w);
  };
  using Row = std::vector<int>;
  const TmaReport s128 = with("128", 64), s64 = with("64", 32), s32 = with("32", 16), none = with("none", 64);
  CHECK(row(s128, 0) == Row{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(row(s128, 1) == Row{9, 8, 11, 10, 13, 12, 15, 14});
  CHECK(row(s128, 7) == Row{63, 62, 61, 60, 59, 58, 57, 56});
  CHECK(row(s64, 1) == Row{9, 8, 11, 10, 13, 12, 15, 14});
  CHECK(row(s64, 3) == Row{27, 26, 25, 24, 31, 30, 29, 28});
  CHECK(row(s64, 4) == Row{32, 33, 34, 35, 36, 37, 38, 39});
  CHECK(row(s32, 1) == Row{9, 8, 11, 10, 13, 12, 15, 14});
  CHECK(row(s32, 2) == Row{16, 17, 18, 19, 20, 21, 22, 23});
  CHECK(row(none, 3) == Row{24, 25, 26, 27, 28, 29, 30, 31});
  CHECK(box_bytes(s128.map.recipe) == 16384);
  // The third chunk of row 5 of a box with 128-byte rows is at byte 5 * 128 + (2 ^ 5) * 16.
  CHECK(swizzled_rows(s128.map.recipe)[5].offset == 640);
  CHECK(row(s128, 5)[2 ^ 5] == 5 * 8 + 2);
}

TEST_CASE("the drawing names rows and chunks of the box, and ends with it") {
  TmaWords w = legal();
  w.box = {64, 3};
  const std::string text = drawing(examine(w).map);
  CHECK(text ==
        "box: 384 B in shared memory, rows of 128 B, at a multiple of 1024 B; tensor: 8388608 B\n"
        "  byte  16-byte chunks, as row:chunk of the box\n"
        "     0    0:0    0:1    0:2    0:3    0:4    0:5    0:6    0:7\n"
        "   128    1:1    1:0    1:3    1:2    1:5    1:4    1:7    1:6\n"
        "   256    2:2    2:3    2:0    2:1    2:6    2:7    2:4    2:5\n");
  w.box = {24, 3};
  w.swizzle = std::string("none");
  CHECK(drawing(examine(w).map)
            .ends_with("     0    0:0    0:1    0:2    1:0    1:1    1:2    2:0    2:1\n"
                       "   128    2:2      -      -      -      -      -      -      -\n"));
  w.element_strides = {1, 2};  // every other row
  CHECK(box_bytes(examine(w).map.recipe) == 96);
}

}  // namespace ptxbuilder::test::tma_test
