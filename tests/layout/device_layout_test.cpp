// Tests layouts of device values. Their code runs on the emulator, with shapes and strides that are only in
// the kernel's memory. It must have the same results as layouts of host integers.
#include <doctest/doctest.h>

#include "layout_kit.h"
#include "library_kit.h"
#include "ptxbuilder/ir/index.h"
#include "ptxbuilder/ir/typed_calls.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test::device_layout_test {
namespace {

constexpr uint32_t kThreads = 32;

// One kernel with many cases. Thread i stores the value of each case at i, and the expected value is computed
// on the host.
class Cases {
 public:
  Cases() : kernel_("layouts", {.line_info = false}) {
    auto [out, values] = kernel_.params<gptr<u32>, gptr<u32>>("out", "values");
    kernel_.threads(kThreads);
    out_.emplace(out);
    values_.emplace(values);
    thread_.emplace(tid_x());
  }

  // Returns a number that the device loads.
  u32 hidden(int64_t value) {
    input_.push_back(static_cast<uint32_t>(value));
    return (*values_)[static_cast<uint32_t>(input_.size() - 1)];
  }

  // Returns a tuple in which `hide` decides whether each integer is hidden or known. A stride of 0 is never
  // hidden.
  template <class Hide>
  DeviceTuple tuple(const IntTuple& t, Hide hide) {
    if (!t.is_tuple())
      return hide(t.value()) ? DeviceTuple(Index(hidden(t.value()))) : DeviceTuple(t.value());
    std::vector<DeviceTuple> elements;
    for (const IntTuple& e : t.elements()) elements.push_back(tuple(e, hide));
    return DeviceTuple(std::move(elements));
  }
  template <class Hide>
  DeviceLayout layout(const Layout& l, Hide hide) {
    DeviceTuple shape = tuple(l.shape(), hide);
    return DeviceLayout(shape, tuple(l.stride(), [&](int64_t d) { return d != 0 && hide(d); }));
  }

  u32 thread() const { return *thread_; }

  void expect(const std::string& what, const Index& value, const std::function<int64_t(int64_t)>& expected) {
    (*out_)[thread() + static_cast<uint32_t>(names_.size()) * kThreads] = value.value();
    names_.push_back(what);
    for (int64_t i = 0; i < kThreads; ++i) expected_.push_back(static_cast<uint32_t>(expected(i)));
  }

  void run() {
    std::string text = ptx_of(kernel_);
    auto device = runtime::open_device("emulator");
    auto program = device->load(text, kernel_.builder().signature());
    std::vector<uint32_t> result(expected_.size(), 0xdeadbeef);
    input_.push_back(0);
    runtime::Address out = device->allocate(result.size() * 4), values = device->allocate(input_.size() * 4);
    device->copy_in(out, result.data(), result.size() * 4);
    device->copy_in(values, input_.data(), input_.size() * 4);
    const void* parameters[] = {&out, &values};
    runtime::Launch launch;
    launch.grid = {1, 1, 1};
    launch.block = {kThreads, 1, 1};
    device->launch(*program, launch, parameters);
    device->synchronize();
    device->copy_out(result.data(), out, result.size() * 4);
    for (size_t i = 0; i < result.size(); ++i) {
      CAPTURE(names_[i / kThreads]);
      CAPTURE(i % kThreads);
      REQUIRE(result[i] == expected_[i]);
    }
  }

 private:
  Kernel kernel_;
  std::optional<gptr<u32>> out_, values_;
  std::optional<u32> thread_;
  std::vector<uint32_t> input_, expected_;
  std::vector<std::string> names_;
};

}  // namespace

TEST_CASE("offsets and coordinates of random layouts") {
  CAPTURE(layout_seed());
  LayoutMaker make(layout_seed());
  Cases cases;
  for (int round = 0; round < 40; ++round) {
    Layout host = make.layout();
    int share = round % 4;  // hides none, some, most or all integers
    DeviceLayout device = cases.layout(host, [&](int64_t) { return make.pick(3) < share; });
    cases.expect(to_string(host), device(cases.thread()), [=](int64_t i) { return host(i); });
    cases.expect("size", size(device), [=](int64_t) { return size(host); });
    cases.expect("cosize", cosize(device), [=](int64_t) { return cosize(host); });
    DeviceTuple c = idx2crd<Index>(cases.thread(), device.shape());
    cases.expect("idx2crd", device(c), [=](int64_t i) { return host(idx2crd(i, host.shape())); });
    cases.expect("crd2idx", crd2idx<Index>(c, device.shape()), [](int64_t i) { return i; });
    int64_t n = size(host);  // coalesce preserves the function only within the domain
    cases.expect("coalesce", coalesce(device)(cases.thread() % u32(n)),
                 [=](int64_t i) { return host(i % n); });
  }
  cases.run();
}

TEST_CASE("tiles of a matrix whose extents and strides the kernel reads at run time") {
  Cases cases;
  for (auto [m, n, ld] : {std::array{64, 96, 100}, {128, 32, 128}, {72, 40, 4096}}) {
    Layout host({m, n}, {1, ld});
    for (int known = 0; known < 2; ++known) {
      DeviceLayout device({cases.hidden(m), known ? Index(n) : Index(cases.hidden(n))},
                          {1, cases.hidden(ld)});
      u32 t = cases.thread();
      Tiler tiler{8, make_layout({2, 2}, {1, 4})};
      DeviceTiler device_tiler{8, to_device(make_layout({2, 2}, {1, 4}))};
      auto both = [&](const char* what, const DeviceLayout& d, const Layout& h) {
        cases.expect(what, d(t), [=](int64_t i) { return h(i); });
        cases.expect("its size", size(d), [=](int64_t) { return size(h); });
      };
      both("logical_divide", logical_divide(device, device_tiler), logical_divide(host, tiler));
      both("zipped_divide", zipped_divide(device, device_tiler), zipped_divide(host, tiler));
      both("tiled_divide", tiled_divide(device, device_tiler), tiled_divide(host, tiler));
      both("flat_divide", flat_divide(device, device_tiler), flat_divide(host, tiler));
      both("composition", composition(device, device_tiler), composition(host, tiler));
      both("by layout", composition(device, DeviceTiler(DeviceLayout({8, 2}, {1, cases.hidden(m)}))),
           composition(host, make_layout({8, 2}, {1, m})));
      both("slice", slice<Index>({DeviceTiler(_), DeviceTiler(3)}, device), slice({_, 3}, host));
      cases.expect("its offset", slice_offset<Index>({DeviceTiler(_), DeviceTiler(t)}, device),
                   [=](int64_t i) { return i * ld; });
      both("logical_product",
           logical_product(make_layout<Index>({4, 2}),
                           DeviceTiler(DeviceLayout(cases.hidden(3), cases.hidden(5)))),
           logical_product(make_layout({4, 2}), make_layout(3, 5)));
      both("blocked_product",
           blocked_product(make_layout<Index>({4, 2}), DeviceLayout({cases.hidden(m), 3}, {3, 1})),
           blocked_product(make_layout({4, 2}), make_layout({m, 3}, {3, 1})));
      both("tile_to_shape", tile_to_shape(make_layout<Index>({8, 8}), {cases.hidden(m), cases.hidden(n)}),
           tile_to_shape(make_layout({8, 8}), {m, n}));
      both("complement", complement<Index>(DeviceLayout(4, cases.hidden(3)), DeviceTuple(cases.hidden(100))),
           complement(make_layout(4, 3), 100));
      both("recast", recast(device, 32, 8), recast(host, 32, 8));
      both("upcast", upcast(DeviceLayout({16, 4}, {1, cases.hidden(ld)}), 4),
           upcast(make_layout({16, 4}, {1, ld}), 4));
      XorSwizzle swizzle = byte_swizzle(Swizzle::b128);
      DeviceComposedLayout composed(swizzle, cases.hidden(64), DeviceLayout({8, 4}, {cases.hidden(128), 16}));
      ComposedLayout host_composed(swizzle, 64, make_layout({8, 4}, {128, 16}));
      cases.expect("swizzled", composed(t), [=](int64_t i) { return host_composed(i); });
      cases.expect("a known row", device({1, t}), [=](int64_t i) { return 1 + i * ld; });
      cases.expect("negative stride", DeviceLayout(cases.hidden(32), -3)(t),
                   [](int64_t i) { return -3 * i; });
    }
  }
  cases.run();
}

TEST_CASE("known values are folded, and only the others become code") {
  auto code = [](auto body) {
    Kernel k("k", {.line_info = false});
    auto [out, n] = k.params<gptr<u32>, u32>("out", "n");
    out[0u] = body(n).value();
    return squeezed(ptx_of(k));
  };
  auto arithmetic = [](const std::string& text) {
    size_t sum = 0;
    for (const char* word : {"mul.", "mad.", "add.", "sub.", "div.", "rem.", "min.", "shr.", "shl.", "and."})
      sum += count(text, word);
    return sum;
  };
  // Known layouts at known places are constants.
  CHECK(arithmetic(code([](u32) { return DeviceLayout({4, 8}, {8, 1})({Index(3), Index(2)}); })) == 0);
  Kernel k("k", {.line_info = false});
  auto [n] = k.params<u32>("n");
  DeviceLayout tiles = zipped_divide(DeviceLayout({64, n}, {1, 64}), DeviceTiler{16, 8});
  CHECK(to_string(tiles) == "((16,8),(4,?)):((1,64),(16,512))");
  CHECK(size(tiles[0]).known() == 128);
  CHECK(Index(u32(5)).known() == 5);
  CHECK(DeviceLayout({n, 4}, {1, n})(0).known() == 0);
  CHECK(!DeviceLayout({n, 4}, {1, n})({0, 1}).known().has_value());
  CHECK(to_string(coalesce(DeviceLayout({4, 8, n}, {1, 4, 32}))) == "(32,?):(1,32)");
  CHECK(to_string(coalesce(DeviceLayout({n, 4, 8}, {1, n, 7}))) == "(?,4,8):(1,?,7)");
  // i % 8 and i / 8 are one instruction each, and a stride of 1 needs none.
  std::string text = code([](u32 i) { return DeviceLayout({8, i}, {1, 8})(i); });
  CHECK(count(text, "mul") + count(text, "div") + count(text, "rem") == 0);
}

TEST_CASE("an operation that depends on an unknown value is an error that says so") {
  auto with_n = [](auto body) {
    return error_of([&] {
      Kernel k("k", {.line_info = false});
      auto [n] = k.params<u32>("n");
      body(n);
      ptx_of(k);
    });
  };
  auto fails = [&](auto body, const char* phrase) {
    std::string message = with_n(body);
    CAPTURE(message);
    CHECK(message.find(phrase) != std::string::npos);
  };
  auto passes = [&](auto body) { CHECK(with_n(body) == ""); };
  fails(
      [](u32 n) {
        complement<Index>(DeviceLayout({4, 4}, {1, n}), 64);
      },
      "stride 1 of the 2 modes must be known");
  passes([](u32 n) { complement<Index>(DeviceLayout({4, 4}, {1, 8}), DeviceTuple(n)); });
  fails([](u32 n) { left_inverse(DeviceLayout({4, 4}, {1, n})); }, "must be known");
  passes([](u32 n) { right_inverse(DeviceLayout({4, 4}, {1, n})); });
  fails([](u32 n) { compatible<Index>(DeviceTuple(n), DeviceTuple{4, 4}); }, "the size of ? must be known");
  passes([](u32) { compatible<Index>(DeviceTuple(16), DeviceTuple{4, 4}); });
  fails([](u32 n) { make_layout_like(DeviceLayout({4, 4}, {1, n})); }, "must be known");
  passes([](u32) { make_layout_like(DeviceLayout({4, 4}, {1, 8})); });
  fails([](u32 n) { DeviceLayout({4, 0}, {1, n}); }, "a shape is at least 1");
  passes([](u32 n) { DeviceLayout({4, n}, {1, 4}); });
  fails(
      [](u32 n) {
        DeviceLayout({n, 4}, {1, int64_t{1} << 33})(n);
      },
      "does not fit in the 32 bits of a device value");
  passes([](u32 n) { DeviceLayout({n, 4}, {1, int64_t{1} << 31})(n); });
  fails(
      [](u32 n) {
        composition(DeviceLayout({4, 6, n}, {2, 3, 5}), DeviceTiler(DeviceLayout(6, 5)));
      },
      "the stride 5 must be below the shape 4");
  passes([](u32 n) { composition(DeviceLayout({4, 6, n}, {2, 3, 5}), DeviceTiler(DeviceLayout(6, 4))); });
  // Device values exist only within a kernel.
  CHECK(contains(error_of([] { Index(3).value(); }), "no kernel"));
}

}  // namespace ptxbuilder::test::device_layout_test
