// Executes wmma (PTX ISA, "Warp-level matrix instructions using wmma"). PTX does not specify how a fragment's
// elements are distributed among lanes. Here, lane l holds elements l E to l E + E - 1 of the row-major
// matrix; if its registers have room for more, they repeat these elements.
#include <fmt/format.h>

#include <cfenv>
#include <cmath>
#include <type_traits>

#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/instructions/matmul.h"
#include "runtime/emulator/machine/numeric.h"

namespace ptxbuilder::runtime::emulator {
namespace {

struct Fragment2D {
  uint8_t rows, columns, bytes;  // `bytes` is the size of an element
  uint8_t register_bytes;
  RegisterList registers;

  uint32_t each() const { return uint32_t{rows} * columns / 32; }  // elements per lane
};

// Calls f(index of the element in the matrix, its bytes in a register) for all elements that the registers
// hold.
template <class F>
void for_elements(Warp& w, const Fragment2D& x, F f) {
  const auto registers = w.listed(x.registers);
  const uint32_t of_register = x.register_bytes / x.bytes;
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t k = 0; k < registers.size() * of_register; ++k)
      f(lane * x.each() + k % x.each(),
        w.at<std::byte>(registers[k / of_register]) + lane * x.register_bytes + k % of_register * x.bytes);
}

struct WmmaAccess {
  AddressOperand p;
  Register stride;  // no_register if rows are contiguous
  Fragment2D fragment;
  Space space;
  bool by_column;
};

template <bool store>
void execute_wmma_access(Warp& w, const WmmaAccess& x, Lanes lanes) {
  if (!w.together(lanes)) return;
  const Fragment2D& m = x.fragment;
  const uint32_t lines = x.by_column ? m.columns : m.rows, length = x.by_column ? m.rows : m.columns;
  const uint64_t first = w.address(x.p, 0);
  const uint32_t stride = x.stride == no_register ? length : w.at<uint32_t>(x.stride)[0];
  for (int lane = 1; lane < 32; ++lane)
    if (w.address(x.p, lane) != first ||
        (x.stride != no_register && w.at<uint32_t>(x.stride)[lane] != stride))
      w.fail(Fault::operand, "the address or the stride differs between lanes", lane);
  if (first % 16 || uint64_t{stride} * m.bytes % 16)
    w.fail(Fault::misaligned,
           fmt::format("the address {:#x} and the stride of {} B must be multiples of 16 B", first,
                       uint64_t{stride} * m.bytes));
  std::vector<std::byte*> places;
  std::vector<std::pair<Cta*, uint32_t>> touched;
  for (uint32_t line = 0; line < lines; ++line) {
    const auto bytes = static_cast<uint32_t>(length * m.bytes);
    Cta* owner;
    uint32_t offset;
    const uint64_t address = first + uint64_t{line} * stride * m.bytes;
    std::byte* place = w.place(address, bytes, x.space, 0, owner, offset);
    if (owner) {
      w.touch({*owner, offset, bytes, store, 0});
      w.touch_lanes({*owner, offset, bytes, store, 0});  // see execute_rows() of ldmatrix
      touched.emplace_back(owner, offset);
      owner->shadow.uninitialised.reset();
    } else {
      w.global(address, bytes, 0, store, "this");
      w.touch_global({.address = address,
                      .bytes = bytes,
                      .writes = store,
                      .deed = w.access(),
                      .what = store ? "this writes" : "this reads"});
    }
    places.push_back(place);
  }
  for_elements(w, m, [&](uint32_t element, std::byte* held) {
    const uint32_t row = element / m.columns, column = element % m.columns;
    std::byte* there = places[x.by_column ? column : row] + (x.by_column ? row : column) * m.bytes;
    store ? std::memcpy(there, held, m.bytes) : std::memcpy(held, there, m.bytes);
  });
  w.causality.meet(w.lanes, w.alive);
  for (const auto& [owner, offset] : touched)
    if (store) w.touch_lanes({*owner, offset, static_cast<uint32_t>(length * m.bytes), true, 0});
}

struct WmmaProduct {
  Fragment2D d, a, b, c;
  Type d_type, a_type, b_type, c_type;
  bool satfinite;
  Rounding rounding;  // for f64
};

template <class T>
T element(Type type, const std::byte* at) {
  uint32_t bits = 0;
  std::memcpy(&bits, at, std::min(4, bytes(type)));
  switch (type) {
    case Type::f16:
      return static_cast<T>(from_f16(static_cast<uint16_t>(bits)));
    case Type::bf16:
      return static_cast<T>(from_bf16(static_cast<uint16_t>(bits)));
    case Type::f32:
      return static_cast<T>(std::bit_cast<float>(bits));
    case Type::tf32:
      return static_cast<T>(std::bit_cast<float>(bits & ~0x1fffu));
    case Type::s8:
      return static_cast<T>(static_cast<int8_t>(bits));
    case Type::u8:
      return static_cast<T>(static_cast<uint8_t>(bits));
    case Type::s32:
      return static_cast<T>(static_cast<int32_t>(bits));
    default: {
      double value;
      std::memcpy(&value, at, sizeof value);
      return static_cast<T>(value);
    }
  }
}

template <class T>
void execute_wmma(Warp& w, const WmmaProduct& x, Lanes lanes) {
  if (!w.converged(lanes)) return;
  const uint32_t m = x.a.rows, n = x.b.columns, k = x.a.columns;
  std::vector<T> a(size_t{m} * k), b(size_t{k} * n), c(size_t{m} * n);
  for_elements(w, x.a, [&](uint32_t e, const std::byte* at) { a[e] = element<T>(x.a_type, at); });
  for_elements(w, x.b, [&](uint32_t e, const std::byte* at) { b[e] = element<T>(x.b_type, at); });
  for_elements(w, x.c, [&](uint32_t e, const std::byte* at) { c[e] = element<T>(x.c_type, at); });
  constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  if (std::is_same_v<T, double>) std::fesetround(modes[static_cast<int>(x.rounding)]);
  for (uint32_t i = 0; i < m; ++i)
    for (uint32_t j = 0; j < n; ++j)
      for (uint32_t l = 0; l < k; ++l) {
        T& sum = c[i * n + j];
        if constexpr (std::is_same_v<T, double>)
          sum = std::fma(a[i * k + l], b[l * n + j], sum);
        else
          sum += a[i * k + l] * b[l * n + j];
      }
  std::fesetround(FE_TONEAREST);
  for_elements(w, x.d, [&](uint32_t e, std::byte* at) {
    if (x.d_type == Type::f64) {
      const auto value = static_cast<double>(c[e]);
      std::memcpy(at, &value, sizeof value);
    } else if (x.d_type == Type::s32) {
      const auto wide = static_cast<int64_t>(c[e]);
      const auto value =
          static_cast<int32_t>(x.satfinite ? std::clamp<int64_t>(wide, INT32_MIN, INT32_MAX) : wide);
      std::memcpy(at, &value, sizeof value);
    } else if (x.d_type == Type::f16) {
      const uint16_t value = to_f16(static_cast<float>(c[e]));
      std::memcpy(at, &value, sizeof value);
    } else {
      const auto value = static_cast<float>(c[e]);
      std::memcpy(at, &value, sizeof value);
    }
  });
}

struct Shape {
  std::string_view name;
  uint8_t m, n, k;
};
constexpr Shape shapes[] = {{"m16n16k16", 16, 16, 16},
                            {"m32n8k16", 32, 8, 16},
                            {"m8n32k16", 8, 32, 16},
                            {"m16n16k8", 16, 16, 8},
                            {"m8n8k4", 8, 8, 4}};

Shape shape_of(const Decode& d) {
  for (const Shape& s : shapes)
    if (d.has(s.name)) return s;
  return shapes[0];
}

// Decodes the fragment of matrix 'a', 'b' or 'c'. Matrix d has the layout of 'c'.
Fragment2D fragment(Decode& d, char matrix, const Shape& s, Type type, const ptx_text::Operand& o,
                    bool writes) {
  Fragment2D f{};
  f.rows = matrix == 'b' ? s.k : s.m;
  f.columns = matrix == 'a' ? s.k : s.n;
  f.bytes = static_cast<uint8_t>(bytes(type));
  const Type held = type == Type::f64 ? Type::b64 : Type::b32;
  f.register_bytes = static_cast<uint8_t>(bytes(held));
  const auto parts = Decode::parts(o);
  f.registers = d.list(writes ? d.destinations(parts, held) : d.sources(parts, held));
  return f;
}

void decode_wmma_access(Decode& d, bool store) {
  d.turn(store ? Turn::stores : Turn::late);
  WmmaAccess x{};
  x.by_column = d.has("col");
  x.space = d.has("global")                           ? Space::global
            : d.has("shared") || d.has("shared::cta") ? Space::shared
                                                      : Space::generic;
  x.p = d.address(d["p"]);
  x.fragment = fragment(d, d.has("a") ? 'a' : d.has("b") ? 'b' : 'c', shape_of(d), d.type(), d["r"], !store);
  const ptx_text::Operand* stride = d.find("stride");
  x.stride = stride ? d.source(*stride, Type::b32) : no_register;
  d.needs_all();
  store ? d.run<execute_wmma_access<true>>(x) : d.run<execute_wmma_access<false>>(x);
}

void decode_wmma(Decode& d) {  // the loads have already checked the layouts
  const Shape s = shape_of(d);
  WmmaProduct x{};
  x.satfinite = d.has("satfinite");
  x.rounding = rounding_of(d);
  const bool halves = d.type_or(Type::none, 2) == Type::none;  // for f16, the types of a and b are not named
  x.d_type = d.type(0);
  x.a_type = halves ? Type::f16 : d.type(1);
  x.b_type = halves ? Type::f16 : d.type(2);
  x.c_type = d.type(halves ? 1 : 3);
  x.d = fragment(d, 'c', s, x.d_type, d["d"], true);
  x.a = fragment(d, 'a', s, x.a_type, d["a"], false);
  x.b = fragment(d, 'b', s, x.b_type, d["b"], false);
  x.c = fragment(d, 'c', s, x.c_type, d["c"], false);
  d.passes(Flow::collective, std::vector<Register>(d.reads));
  if (x.d_type == Type::f64)
    d.run<execute_wmma<double>>(x);
  else if (x.d_type == Type::s32)
    d.run<execute_wmma<int64_t>>(x);
  else
    d.run<execute_wmma<float>>(x);
}

}  // namespace

void add_wmma(DecodeTable& t) {
  t["wmma.load"] = [](Decode& d) { decode_wmma_access(d, false); };
  t["wmma.store"] = [](Decode& d) { decode_wmma_access(d, true); };
  t["wmma.mma"] = decode_wmma;
}

}  // namespace ptxbuilder::runtime::emulator
