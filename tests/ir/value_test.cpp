// Compares device values with the host's results on fresh random numbers: operators, elements of memory,
// parameters, and handwritten instructions.
//
//   value_test [--device=emulator|cuda|auto]
#include "ptxbuilder/dtype.h"
#include "register_tile_kit.h"

namespace ptxbuilder::test::value_test {
namespace {

constexpr int kThreads = 128;

// Calls f<T>() for the types that registers have.
template <class F>
void for_values(F f) {
  for_types<u16, s16, u32, s32, u64, s64, f16, bf16, f32, f64>(f);
}

// Returns integers for which no operator overflows the type. They are positive if the type is unsigned.
Matrix numbers(DType type, double least, double greatest) {
  return random_matrix(type, {kThreads, 1},
                       is_integer(type) && !is_signed(type) ? std::max(least, 1.0) : least, greatest);
}

double wrapped(DType type, double value) {
  std::byte bytes[8];
  write_element(bytes, type, value);
  return read_element(bytes, type);
}

// Launches a kernel of one thread with `arguments`, followed by 64 u64 of output, and returns the output.
std::vector<uint64_t> launched(Kernel k, std::vector<runtime::Argument> arguments,
                               const std::unique_ptr<runtime::Device>& device) {
  CompilerOptions options;
  options.cache = false;
  options.assemble = !device->wants_ptx();
  Compiled compiled = Compiler(options).compile(std::move(k));
  Signature read = signature_from_json(to_json(compiled.signature), "k.json");
  runtime::LoadedKernel kernel(*device, options.assemble ? compiled.cubin : compiled.ptx, read);
  runtime::Buffer out(*device, 64 * 8);
  out.fill(0);
  arguments.push_back(runtime::pointer(out, DType::u64));
  kernel.launch({.grid = {1}}, arguments);
  device->synchronize();
  return out.copy_out<uint64_t>();
}

}  // namespace

TEST_CASE("- and ~ of every type") {
  for_values([]<class T>() {
    Matrix x = numbers(T::dtype, -100, 100);
    Kernel k("unary");
    auto [px, out] = k.params<gptr<T>, gptr<T>>("x", "out");
    u32 i = tid_x();
    out[i] = -px[i];
    std::vector<double> expected;
    for (double v : x.values) expected.push_back(wrapped(T::dtype, -v));
    if constexpr (requires(T t) { ~t; }) {
      out[i + kThreads] = ~px[i];
      for (double v : x.values) expected.push_back(wrapped(T::dtype, -v - 1));
    }
    int count = static_cast<int>(expected.size());
    check_equal(result_of(std::move(k), {x}, {T::dtype, {count, 1}, {}}), expected,
                std::string(name(T::dtype)));
  });
}

TEST_CASE("an element of memory is changed in place, with every operator of its type") {
  for_values([]<class T>() {
    Matrix x = numbers(T::dtype, -60, 60), y = numbers(T::dtype, 1, 4);
    Kernel k("in_place");
    auto [px, py, out] = k.params<gptr<T>, gptr<T>, gptr<T>>("x", "y", "out");
    u32 i = tid_x();
    const T b = py[i];
    std::vector<double> expected;
    int block = 0;
    auto expect = [&](auto change, auto on_host) {
      gptr<T> place = out + (i + block++ * kThreads);
      place[0] = px[i];
      change(place);
      for (size_t e = 0; e < x.count(); ++e)
        expected.push_back(wrapped(T::dtype, on_host(x.values[e], y.values[e])));
    };
    expect([&](gptr<T> at) { at[0] += b; }, [](double v, double w) { return v + w; });
    expect([&](gptr<T> at) { at[0] += 1; }, [](double v, double) { return v + 1; });
    expect([&](gptr<T> at) { at[0] *= b; }, [](double v, double w) { return v * w; });
    expect([&](gptr<T> at) { at[0] /= b; },
           [](double v, double w) { return is_integer(T::dtype) ? std::trunc(v / w) : v / w; });
    // The element that is read must be the one that is written, whatever else reads it.
    expect([&](gptr<T> at) { at[0] += at[0].value(); }, [](double v, double) { return 2 * v; });
    if constexpr (requires(T t) { t % t; }) {
      auto of_integers = [](auto f) {
        return [f](double v, double w) {
          return static_cast<double>(f(static_cast<int64_t>(v), static_cast<int64_t>(w)));
        };
      };
      expect([&](gptr<T> at) { at[0] %= b; }, of_integers([](int64_t v, int64_t w) { return v % w; }));
      expect([&](gptr<T> at) { at[0] &= b; }, of_integers([](int64_t v, int64_t w) { return v & w; }));
      expect([&](gptr<T> at) { at[0] |= b; }, of_integers([](int64_t v, int64_t w) { return v | w; }));
      expect([&](gptr<T> at) { at[0] ^= b; }, of_integers([](int64_t v, int64_t w) { return v ^ w; }));
      expect([&](gptr<T> at) { at[0] <<= b; }, of_integers([](int64_t v, int64_t w) { return v << w; }));
      expect([&](gptr<T> at) { at[0] >>= b; }, of_integers([](int64_t v, int64_t w) { return v >> w; }));
    }
    expect([&](gptr<T> at) { at[0] -= T(0); }, [](double v, double) { return v; });
    int count = static_cast<int>(expected.size());
    check_equal(result_of(std::move(k), {x, y}, {T::dtype, {count, 1}, {}}), expected,
                std::string(name(T::dtype)));
  });
}

TEST_CASE("constants convert to integers as values of the device do") {
  Kernel k("constants");
  auto [out] = k.params<gptr<u64>>("out");
  std::vector<uint64_t> expected;
  auto expect = [&](u64 value, uint64_t wanted) {
    out[static_cast<uint32_t>(expected.size())] = value;
    expected.push_back(wanted);
  };
  expect(u64(u32(f32(-1.5F))), 0);
  expect(u64(u32(f32(5e9F))), UINT32_MAX);
  expect(u64(u32(s32(f32(3e9F)))), INT32_MAX);
  expect(u64(u32(s32(f32(-3e9F)))), uint64_t{1} << 31);
  expect(u64(u16(f32(70000))), UINT16_MAX);
  expect(u64(f32(-1)), 0);
  expect(u64(u32(f16(-2))), 0);
  expect(u64(u32(f32(3.75F))), 3);
  expect(u64(u32(s32(f32(0) / f32(0)))), 0);
  const std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  std::vector<uint64_t> result = launched(std::move(k), {}, device);
  result.resize(expected.size());
  CHECK(result == expected);
}

TEST_CASE("an index is a Var, an element or has 64 bits, and elements convert") {
  Matrix x = numbers(DType::bf16, -4, 4), at = {DType::u32, {kThreads, 1}, {}};
  for (int i = 0; i < kThreads; ++i) at.values.push_back((i * 37) % kThreads);
  Kernel k("indices");
  auto [px, pat, out] = k.params<gptr<bf16>, gptr<u32>, gptr<f32>>("x", "at", "out");
  u32 i = tid_x();
  Var<u32> v(i);
  Var<u64> wide(u64(i) + (uint64_t{1} << 33));
  Var<bf16> kept(px[i]);
  // An offset beyond 4 Gi elements is added and subtracted again, because an index must not be truncated.
  out[v] = f32(px[pat[v]]) + f32(kept);
  gptr<f32> far = out + (u64(0) - (uint64_t{1} << 33));
  far[wide + kThreads] = f32(far[wide]) * 2;
  out[i + 2 * kThreads] = f32((px + (int64_t{1} << 40))[u64(i) - (uint64_t{1} << 40)]);
  std::vector<double> expected;
  for (int copy : {1, 2})
    for (int t = 0; t < kThreads; ++t)
      expected.push_back(copy *
                         rounded(DType::f32, x.values[size_t(at.values[size_t(t)])] + x.values[size_t(t)]));
  expected.insert(expected.end(), x.values.begin(), x.values.end());
  check_equal(result_of(std::move(k), {x, at}, {DType::f32, {3 * kThreads, 1}, {}}), expected, "indices");
}

TEST_CASE("shared memory and a Var are changed in place too") {
  Matrix x = numbers(DType::u32, 1, 1000);
  Kernel k("shared");
  auto [px, out] = k.params<gptr<u32>, gptr<u32>>("x", "out");
  sptr<u32> mine(k.shared<u32>({1, kThreads})[0].address());
  u32 i = tid_x();
  mine[i] = px[i];
  mine[i] -= 1;
  Var<u32> v(px[i]);
  v /= 2;
  v |= 1;
  out[i] = mine[i] * 65536 + v;
  std::vector<double> expected;
  for (double e : x.values) expected.push_back((e - 1) * 65536 + (static_cast<uint32_t>(e) / 2 | 1));
  check_equal(result_of(std::move(k), {x}, {DType::u32, {kThreads, 1}, {}}), expected, "shared");
}

TEST_CASE("predicates: and, or, not of all combinations") {
  Kernel k("logic");
  auto [out] = k.params<gptr<u32>>("out");
  u32 i = tid_x();
  pred a = (i & 1) != 0, b = (i & 2) != 0;
  out[i] = u32(a && b) + u32(a || b) * 2 + u32(!a || (a && !b)) * 4 + u32((i < 64 && i > 3) || i == 0) * 8;
  std::vector<double> expected;
  for (int t = 0; t < kThreads; ++t) {
    const bool p = t & 1, q = t & 2;
    expected.push_back((p && q) + (p || q) * 2 + (!p || (p && !q)) * 4 + ((t < 64 && t > 3) || t == 0) * 8);
  }
  check_equal(result_of(std::move(k), {}, {DType::u32, {kThreads, 1}, {}}), expected, "logic");
}

TEST_CASE("parameters of every type") {
  auto device = runtime::open_device(device_name);
  Kernel k("parameters");
  k.threads(1);
  auto [a, b, c, d, e, f, g, h, i, j, l, m, out] =
      k.params<u8, s8, u16, s16, u32, s32, u64, s64, f16, bf16, f32, f64, gptr<u64>>(
          "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "l", "m", "out");
  static_assert(std::same_as<decltype(a), u32> && std::same_as<decltype(b), s32>);
  auto low = [](auto value) { return u64(s64(value)); };
  out[0] = u64(a + 1);
  out[1] = low(b);
  out[2] = u64(c);
  out[3] = low(d);
  out[4] = u64(e);
  out[5] = low(f);
  out[6] = g;
  out[7] = low(h);
  out[8] = low(s32(f32(i) * 16));
  out[9] = low(s32(f32(j) * 16));
  out[10] = low(s32(l * 16));
  out[11] = low(s32(m * 16));
  auto bits = [](DType type, double value) {
    uint64_t code = 0;
    write_element(reinterpret_cast<std::byte*>(&code), type, value);
    return runtime::scalar_bits(type, code);
  };
  std::vector<uint64_t> got = launched(
      std::move(k),
      {runtime::scalar(uint8_t{255}), runtime::scalar(int8_t{-128}), runtime::scalar(uint16_t{65535}),
       runtime::scalar(int16_t{-3}), runtime::scalar(4000000000u), runtime::scalar(-5),
       runtime::scalar(uint64_t{1} << 40), runtime::scalar(int64_t{-1} << 40), bits(DType::f16, -1.5),
       bits(DType::bf16, 2.5), bits(DType::f32, -0.5), bits(DType::f64, 0.25)},
      device);
  const std::vector<int64_t> expected = {
      256, -128, 65535, -3, 4000000000, -5, int64_t{1} << 40, int64_t{-1} * (int64_t{1} << 40),
      -24, 40,   -8,    4};
  for (size_t n = 0; n < expected.size(); ++n) {
    CAPTURE(n);
    CHECK(static_cast<int64_t>(got[n]) == expected[n]);
  }
}

namespace {

// The struct as the host writes it, with each field at its own alignment.
struct Scaling {
  u32 flags;  // one byte
  f16 alpha;
  gptr<u32> table;
  s32 offset;  // one byte
  f64 beta;
  f32 gamma;

  static constexpr auto fields() {
    return std::tuple{field<u8>("flags", &Scaling::flags), field("alpha", &Scaling::alpha),
                      field("table", &Scaling::table),     field<s8>("offset", &Scaling::offset),
                      field("beta", &Scaling::beta),       field("gamma", &Scaling::gamma)};
  }
};
struct HostScaling {
  uint8_t flags;
  uint16_t alpha;
  uint32_t* table;
  int8_t offset;
  double beta;
  float gamma;
};

}  // namespace

TEST_CASE("a struct is laid out as C lays it out, and each field arrives") {
  auto device = runtime::open_device(device_name);
  Kernel k("structure");
  k.threads(1);
  auto [before, s, after, out] = k.params<u16, Scaling, f32, gptr<u64>>("before", "s", "after", "out");
  out[0] = u64(before);
  out[1] = u64(s.flags);
  out[2] = u64(s32(f32(s.alpha) * 8));
  out[3] = u64(s.table[2].value());
  out[4] = u64(s64(s.offset));
  out[5] = u64(s32(s.beta * 8));
  out[6] = u64(s32(s.gamma * 8));
  out[7] = u64(s32(after * 8));
  const Parameter p = k.signature().parameters[1];
  CHECK(p.size_bytes() == sizeof(HostScaling));
  CHECK(p.alignment() == alignof(HostScaling));
  CHECK(p.field_offsets() == std::vector<int>{offsetof(HostScaling, flags), offsetof(HostScaling, alpha),
                                              offsetof(HostScaling, table), offsetof(HostScaling, offset),
                                              offsetof(HostScaling, beta), offsetof(HostScaling, gamma)});
  auto table = runtime::Buffer::of(*device, std::vector<uint32_t>{7, 8, 9});
  using runtime::scalar;
  std::vector<uint64_t> got = launched(
      std::move(k),
      {scalar(uint16_t{77}),
       runtime::structure({scalar(uint8_t{200}), runtime::scalar_bits(DType::f16, 0x3e00).named("alpha"),
                           runtime::pointer(table, DType::u32), scalar(int8_t{-2}), scalar(0.25),
                           scalar(4.0f).named("gamma")}),
       scalar(0.5f)},
      device);
  const std::vector<int64_t> expected = {77, 200, 12, 9, -2, 2, 32, 4};
  for (size_t n = 0; n < expected.size(); ++n) {
    CAPTURE(n);
    CHECK(static_cast<int64_t>(got[n]) == expected[n]);
  }
}

TEST_CASE("ptx(): lists of registers, and an operand named several times") {
  Matrix x = random_matrix(DType::f32, {kThreads, 4}, -8, 8);
  Kernel k("lists");
  auto [px, out] = k.params<gptr<f32>, gptr<f32>>("x", "out");
  std::vector<Var<f32>> all;
  for (int i = 0; i < 4; ++i) all.emplace_back(0);
  ptx("ld.global.v4.f32 {d:=f32x4}, [{at:gmem}];", {{"d", all}, {"at", gmem(px + tid_x() * 4)}});
  Var<f32> a(all[0].value()), b(all[1].value());
  // Computes a = a a + b b, where `a` is read, written and read again. Then stores a list whose halves are a
  // value and a Var.
  ptx("{{ mul.rn.f32 {a:+f32}, {a}, {a}; fma.rn.f32 {a}, {b:f32}, {b}, {a}; }}", {{"a", a}, {"b", b}});
  gmem first = out + tid_x() * 4, second = first + u64(8u);
  ptx("st.global.v2.f32 [{at:gmem}], {v:f32x2};", {{"at", first}, {"v", {a, b.value() * 2}}});
  std::array<f32, 2> rest = {all[2] + all[3], -all[3]};
  ptx("st.global.v2.f32 [{at:gmem}], {v:f32x2};", {{"at", second}, {"v", rest}});
  std::vector<double> expected;
  for (size_t i = 0; i < x.count(); i += 4) {
    const auto v = [&](size_t e) { return static_cast<float>(x.values[i + e]); };
    const float square = v(0) * v(0);
    expected.insert(expected.end(), {std::fma(v(1), v(1), square), v(1) * 2, v(2) + v(3), -v(3)});
  }
  check_equal(result_of(std::move(k), {x}, {DType::f32, {kThreads, 4}, {}}), expected, "lists");
}

}  // namespace ptxbuilder::test::value_test
