// Compares every shape and type of mma and mma.sp on sm_90, and wgmma.mma_async.sp, with results of the host.
// The inputs are small integers, whose sums are exact in every type. With --device=cuda, the test runs on a
// GPU:
//
//   unit_tests emulator_mma_test --device=cuda
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "emulator_kit.h"
#include "error_kit.h"
#include "options.h"
#include "runtime/buffer.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test::emulator_mma_test {
namespace {

using namespace runtime;

using Matrix = std::vector<std::vector<int>>;

int bits_of(const std::string& type) {
  return type == "b1" ? 1
         : type == "tf32" || type == "f32" || type == "s32"
             ? 32
             : std::stoi(type.substr(type.find_first_of("123468")));
}
bool is_fp8(const std::string& type) { return type == "e4m3" || type == "e5m2"; }
int element_bits(const std::string& type) { return is_fp8(type) ? 8 : bits_of(type); }

uint64_t code(int value, const std::string& type) {
  using namespace emulator;
  const auto real = static_cast<float>(value);
  if (type == "f16") return to_f16(real);
  if (type == "bf16") return to_bf16(real);
  if (type == "e4m3") return encode(real, e4m3_format);
  if (type == "e5m2") return encode(real, e5m2_format);
  if (type == "tf32" || type == "f32") return std::bit_cast<uint32_t>(real);
  if (type == "f64") return std::bit_cast<uint64_t>(static_cast<double>(value));
  const int bits = element_bits(type);
  return static_cast<uint64_t>(value) & (bits == 32 ? 0xffffffff : (uint64_t{1} << bits) - 1);
}

int value_of(uint64_t bits, const std::string& type) {
  if (type == "f16") return static_cast<int>(emulator::from_f16(static_cast<uint16_t>(bits)));
  if (type == "f32") return static_cast<int>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  if (type == "f64") return static_cast<int>(std::bit_cast<double>(bits));
  return static_cast<int32_t>(bits);
}

// Draws integers that are exact in the type, and whose sums of products are exact in f16.
int draw(const std::string& type, std::mt19937& engine) {
  if (type == "b1") return static_cast<int>(engine() % 2);
  const int most = type == "s4" ? 7 : 6;
  return type[0] == 'u' ? static_cast<int>(engine() % 8) : static_cast<int>(engine() % 8) - most / 2 - 1;
}

struct Form {
  std::string shape, d, a, b;
  int m, k;
  bool sparse = false;
  int selector = 0;
  std::string after = {};   // modifiers after the types
  bool ordered = true;      // the metadata of a sparse A is ordered
  bool descending = false;  // the two elements of a group are stored in reverse order

  std::string mnemonic() const {
    const char* of_a = !sparse ? "" : ordered ? ".sp::ordered_metadata" : ".sp";
    return fmt::format("mma{}.sync.aligned.{}.row.col.{}.{}.{}.{}{}", of_a, shape, d, a, b, d, after);
  }
};

std::vector<Form> forms() {
  std::vector<Form> all;
  auto dense = [&](int m, int k, const std::string& d, const std::string& a, const std::string& b,
                   const std::string& after = "") {
    all.push_back({fmt::format("m{}n8k{}", m, k), d, a, b, m, k, false, 0, after});
  };
  auto sparse = [&](int k, int selectors, const std::string& d, const std::string& a, const std::string& b) {
    for (int s = 0; s < selectors; ++s) all.push_back({fmt::format("m16n8k{}", k), d, a, b, 16, k, true, s});
  };
  for (const char* d : {"f16", "f32"}) {
    for (int k : {8, 16}) dense(16, k, d, "f16", "f16");
    for (int k : {16, 32}) dense(16, k, d, "e4m3", "e5m2");
    sparse(16, 4, d, "f16", "f16");
    sparse(32, 2, d, "f16", "f16");
  }
  for (int k : {4, 8}) dense(16, k, "f32", "tf32", "tf32");
  for (int k : {8, 16}) dense(16, k, "f32", "bf16", "bf16");
  dense(8, 4, "f64", "f64", "f64");
  for (int k : {4, 8, 16}) dense(16, k, "f64", "f64", "f64");
  for (const char* a : {"s8", "u8"})
    for (const char* b : {"s8", "u8"}) {
      dense(8, 16, "s32", a, b);
      for (int k : {16, 32}) dense(16, k, "s32", a, b);
      sparse(32, 2, "s32", a, b);
      sparse(64, 1, "s32", a, b);
    }
  for (const char* a : {"s4", "u4"})
    for (const char* b : {"s4", "u4"}) {
      dense(8, 32, "s32", a, b);
      for (int k : {32, 64}) dense(16, k, "s32", a, b);
      sparse(64, 2, "s32", a, b);
      sparse(128, 1, "s32", a, b);
    }
  for (const char* op : {".xor.popc", ".and.popc"}) {
    dense(8, 128, "s32", "b1", "b1", op);
    for (int k : {128, 256}) dense(16, k, "s32", "b1", "b1", op);
  }
  sparse(16, 4, "f32", "bf16", "bf16");
  sparse(32, 2, "f32", "bf16", "bf16");
  sparse(8, 4, "f32", "tf32", "tf32");
  sparse(16, 2, "f32", "tf32", "tf32");
  sparse(64, 1, "f32", "e4m3", "e4m3");
  sparse(64, 1, "f32", "e5m2", "e4m3");
  return all;
}

// The stored part of a sparse A: its columns, and the metadata of each row, with four bits per group.
struct Stored {
  Matrix values;
  std::vector<std::vector<uint32_t>> groups;
};

Stored make_sparse(Matrix& a, int k, int bits, std::mt19937& engine) {
  const int unit = bits == 4 ? 2 : 1, group = bits == 32 ? 2 : 4 * unit;
  Stored stored;
  for (auto& row : a) {
    std::vector<int> kept(row.size(), 0), values;
    std::vector<uint32_t> groups;
    for (int g = 0; g < k; g += group) {
      if (bits == 32) {
        const int which = static_cast<int>(engine() % 2);
        groups.push_back(which ? 0b1110 : 0b0100);
        values.push_back(row[static_cast<size_t>(g + which)]);
        kept[static_cast<size_t>(g + which)] = values.back();
        continue;
      }
      const uint32_t pairs[][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
      const auto& pair = pairs[engine() % 6];
      groups.push_back(pair[0] | pair[1] << 2);
      for (uint32_t which : pair)
        for (int e = 0; e < unit; ++e) {
          const auto at = static_cast<size_t>(g + static_cast<int>(which) * unit + e);
          values.push_back(row[at]);
          kept[at] = row[at];
        }
    }
    row = kept;
    stored.values.push_back(values);
    stored.groups.push_back(groups);
  }
  return stored;
}

// Swaps the two elements of each group.
void exchange_pairs(Stored& stored) {
  for (size_t row = 0; row < stored.values.size(); ++row)
    for (size_t g = 0; g < stored.groups[row].size(); ++g) {
      std::swap(stored.values[row][2 * g], stored.values[row][2 * g + 1]);
      stored.groups[row][g] = stored.groups[row][g] >> 2 | (stored.groups[row][g] & 3) << 2;
    }
}

// Returns the metadata register of each lane of a warp, for the rows starting at `first`. The layouts are
// CuTe's ELayout_64x64, 64x32 and 64x16. Lanes that the selector does not choose hold garbage.
std::vector<uint32_t> metadata(const Stored& a, size_t first, int bits, int selector) {
  std::vector<uint32_t> words(32, 0xdeadbeef);
  const size_t groups = a.groups[0].size();
  for (size_t lane = 0; lane < 32; ++lane) {
    const size_t g = lane / 4, t = lane % 4, holders = groups / 4;
    if (t / holders != static_cast<size_t>(selector)) continue;
    words[lane] = 0;
    const size_t among = t % holders;
    for (size_t n = 0; n < 8; ++n) {
      // If elements have 16 or 32 bits, half of a register belongs to the upper row. If they are smaller,
      // odd lanes hold the upper row.
      const size_t row = bits >= 16 ? g + 8 * (n / 4) : g + 8 * (among % 2);
      const size_t group = bits >= 16 ? 4 * among + n % 4 : 8 * (among / 2) + n;
      words[lane] |= a.groups[first + row][group] << (4 * n);
    }
  }
  return words;
}

// Returns the registers of a fragment, lane by lane. Lane l holds rows l / 4 and l / 4 + 8, each with 32 bits
// that start at bit (l % 4) * 32 of the row.
std::vector<std::vector<uint64_t>> fragment(const Matrix& rows, const std::string& type, bool two) {
  const int bits = element_bits(type), each = bits == 64 ? 1 : 32 / bits;
  const size_t columns = rows[0].size();
  std::vector<std::vector<uint64_t>> lanes(32);
  for (size_t lane = 0; lane < 32; ++lane)
    for (size_t from = 0; from < columns; from += static_cast<size_t>(4 * each))
      for (size_t lower = 0; lower < (two ? 2 : 1); ++lower) {
        uint64_t word = 0;
        for (int e = 0; e < each; ++e)
          word |= code(rows[lane / 4 + 8 * lower]
                           [from + lane % 4 * static_cast<size_t>(each) + static_cast<size_t>(e)],
                       type)
                  << (e * bits % 64);
        lanes[lane].push_back(word);
      }
  return lanes;
}

std::string names(const char* prefix, size_t count) {
  std::string text;
  for (size_t k = 0; k < count; ++k) text += fmt::format("{}%{}{}", k ? ", " : "", prefix, k);
  return "{" + text + "}";
}

// Runs kernel k, which reads `words`, and returns `results` results for each thread of a CTA.
template <class Result, class Word>
std::vector<Result> run_of(Device& device, const std::string& text, uint32_t threads,
                           const std::vector<Word>& words, size_t results) {
  Signature signature;
  signature.kernel = "k";
  signature.threads = threads;
  signature.parameters = {{.name = "in", .kind = Parameter::Kind::pointer, .dtype = DType::u32},
                          {.name = "out", .kind = Parameter::Kind::pointer, .dtype = DType::u32}};
  const auto program = device.load(text, signature);
  Buffer in = Buffer::of(device, words), out = Buffer::of(device, std::vector<Result>(threads * results));
  const Address from = in.address(), to = out.address();
  const void* parameters[] = {&from, &to};
  Launch launch;
  launch.grid = {1, 1, 1};
  launch.block = {threads, 1, 1};
  device.launch(*program, launch, parameters);
  device.synchronize(std::chrono::seconds(60));
  return out.copy_out<Result>();
}

// Runs an instruction. Each lane loads its operands as 64-bit words, and stores its results in the same form.
std::vector<uint64_t> run(Device& device, const std::string& head, const std::string& instruction,
                          const std::vector<std::pair<const char*, size_t>>& registers,
                          const std::vector<uint64_t>& words, bool wide, size_t results) {
  std::string text =
      ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out) {\n"
      ".reg .b64 %x, %y, %z; .reg .b32 %t, %e; .reg .b32 %s;\n";
  size_t of_lane = 0;
  std::string loads;
  for (const auto& [prefix, count] : registers) {
    text += fmt::format(".reg .{} %{}<{}>;\n", wide ? "f64" : "b32", prefix, count);
    for (size_t k = 0; k < count; ++k)
      loads += fmt::format("ld.global.{} %{}{}, [%x+{}];\n", wide ? "f64" : "b32", prefix, k, 8 * of_lane++);
  }
  loads += fmt::format("ld.global.b32 %e, [%x+{}];\n", 8 * of_lane++);
  text += fmt::format(
      "ld.param.u64 %x, [in]; ld.param.u64 %y, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %z, %t, {}; add.s64 "
      "%x, %x, %z;\n"
      "mul.wide.u32 %z, %t, {}; add.s64 %y, %y, %z;\n",
      8 * of_lane, 8 * results);
  text += loads + head + instruction + "\n";
  for (size_t k = 0; k < results; ++k)
    text += fmt::format("st.global.{} [%y+{}], %d{};\n", wide ? "f64" : "b32", 8 * k, k);
  text += "ret;\n}\n";
  return run_of<uint64_t>(device, text, 32, words, results);
}

Matrix random_matrix(int rows, int columns, const std::string& type, std::mt19937& engine) {
  Matrix m(static_cast<size_t>(rows), std::vector<int>(static_cast<size_t>(columns)));
  for (auto& row : m)
    for (int& x : row) x = draw(type, engine);
  return m;
}

int product(const Matrix& a, const Matrix& b, size_t row, size_t column, const std::string& after) {
  int sum = 0;
  for (size_t k = 0; k < a[0].size(); ++k) {
    const int x = a[row][k], y = b[column][k];
    sum += after == ".xor.popc" ? x ^ y : x * y;
  }
  return sum;
}

// Compares a form's results with the host's. The columns of B are contiguous.
std::string check(Device& device, const Form& f, uint32_t seed,
                  const std::function<void(std::vector<uint32_t>&)>& spoil = {}) {
  std::mt19937 engine(seed);
  Matrix a = random_matrix(f.m, f.k, f.a, engine);
  const Matrix b = random_matrix(8, f.k, f.b, engine),
               c = random_matrix(f.m, 8, f.d == "f64" ? "s8" : f.d, engine);
  const int bits = element_bits(f.a);
  Stored stored{a, {}};
  std::vector<uint32_t> e(32);
  if (f.sparse) {
    stored = make_sparse(a, f.k, bits, engine);
    if (f.descending) exchange_pairs(stored);
    e = metadata(stored, 0, bits, f.selector);
    if (spoil) spoil(e);
  }
  const bool wide = bits == 64, half = f.d == "f16";
  const auto of_a = fragment(stored.values, f.a, f.m == 16), of_b = fragment(b, f.b, false);
  const size_t sums = static_cast<size_t>(f.m / 4), results = half ? sums / 2 : sums;
  auto place = [](size_t lane, size_t r) { return std::pair{lane / 4 + 8 * (r / 2), lane % 4 * 2 + r % 2}; };
  std::vector<uint64_t> words;
  for (size_t lane = 0; lane < 32; ++lane) {
    words.insert(words.end(), of_a[lane].begin(), of_a[lane].end());
    words.insert(words.end(), of_b[lane].begin(), of_b[lane].end());
    for (size_t r = 0; r < results; ++r) {
      auto of_c = [&](size_t n) {
        const auto [row, column] = place(lane, n);
        return code(c[row][column], f.d);
      };
      words.push_back(half ? of_c(2 * r) | of_c(2 * r + 1) << 16 : of_c(r));
    }
    words.push_back(e[lane]);
  }
  const std::string instruction = fmt::format(
      "{} {}, {}, {}, {}{};", f.mnemonic(), names("d", results), names("a", of_a[0].size()),
      names("b", of_b[0].size()), names("c", results), f.sparse ? fmt::format(", %e, {}", f.selector) : "");
  const auto got = run(device, fmt::format(".reg .{} %d<{}>;\n", wide ? "f64" : "b32", results), instruction,
                       {{"a", of_a[0].size()}, {"b", of_b[0].size()}, {"c", results}}, words, wide, results);
  for (size_t lane = 0; lane < 32; ++lane)
    for (size_t r = 0; r < sums; ++r) {
      const auto [row, column] = place(lane, r);
      const uint64_t word = got[lane * results + (half ? r / 2 : r)];
      const int is = value_of(half ? word >> (16 * (r % 2)) & 0xffff : word, f.d),
                right = c[row][column] + product(a, b, row, column, f.after);
      if (is != right)
        return fmt::format("{}: element {}, {} is {}, not {}", instruction, row, column, is, right);
    }
  return {};
}

TEST_CASE("every shape and type of mma and mma.sp multiplies as the host does") {
  const auto device = open_device(device_name);
  CHECK(forms().size() > 90);
  for (const Form& f : forms())
    for (uint32_t seed = 1; seed <= 2; ++seed) {
      const std::string wrong = check(*device, f, seed);
      CHECK_MESSAGE(wrong.empty(), wrong);
    }
}

// m8n8k4 of f16 computes four products of 8 x 4 by 4 x 8. A quad of lanes and the quad 16 lanes above it
// compute each product.
TEST_CASE("mma.m8n8k4 of f16 multiplies in quads, in all layouts") {
  const auto device = open_device(device_name);
  std::mt19937 engine(1);
  for (const std::string of_a : {"row", "col"})
    for (const std::string of_b : {"row", "col"})
      for (const std::string d : {"f16", "f32"}) {
        std::vector<Matrix> a, b, c;
        for (int quad = 0; quad < 4; ++quad) {
          a.push_back(random_matrix(8, 4, "f16", engine));
          b.push_back(random_matrix(4, 8, "f16", engine));
          c.push_back(random_matrix(8, 8, "f16", engine));
        }
        const size_t results = d == "f16" ? 4 : 8;
        auto place = [&](size_t lane, size_t e) {
          const size_t lower = lane < 16 ? 0 : 4;
          return d == "f16" ? std::pair{lane % 4 + lower, e}
                            : std::pair{(lane & 1) + (e & 2) + lower, (e & 4) + (lane & 2) + (e & 1)};
        };
        std::vector<uint64_t> words;
        for (size_t lane = 0; lane < 32; ++lane) {
          const size_t quad = lane / 4 % 4, t = lane % 4, lower = lane < 16 ? 0 : 4;
          auto pair = [&](auto value, size_t r) {
            return code(value(2 * r), "f16") | code(value(2 * r + 1), "f16") << 16;
          };
          for (size_t r = 0; r < 2; ++r)
            words.push_back(pair(
                [&](size_t i) { return of_a == "row" ? a[quad][t + lower][i] : a[quad][i + lower][t]; }, r));
          for (size_t r = 0; r < 2; ++r)
            words.push_back(pair(
                [&](size_t i) { return of_b == "row" ? b[quad][t][i + lower] : b[quad][i][t + lower]; }, r));
          auto of_c = [&](size_t i) {
            const auto [row, column] = place(lane, i);
            return c[quad][row][column];
          };
          for (size_t r = 0; r < results; ++r)
            words.push_back(d == "f16" ? pair(of_c, r) : code(of_c(r), "f32"));
          words.push_back(0);
        }
        const std::string instruction =
            fmt::format("mma.sync.aligned.m8n8k4.{}.{}.{}.f16.f16.{} {}, {}, {}, {};", of_a, of_b, d, d,
                        names("d", results), names("a", 2), names("b", 2), names("c", results));
        const auto got = run(*device, fmt::format(".reg .b32 %d<{}>;\n", results), instruction,
                             {{"a", 2}, {"b", 2}, {"c", results}}, words, false, results);
        int wrong = 0;
        for (size_t lane = 0; lane < 32; ++lane)
          for (size_t e = 0; e < 8; ++e) {
            const size_t quad = lane / 4 % 4;
            const auto [row, column] = place(lane, e);
            int right = c[quad][row][column];
            for (size_t k = 0; k < 4; ++k) right += a[quad][row][k] * b[quad][k][column];
            const uint64_t word = got[lane * results + (d == "f16" ? e / 2 : e)];
            wrong += value_of(d == "f16" ? word >> (16 * (e % 2)) & 0xffff : word, d) != right;
          }
        CHECK_MESSAGE(wrong == 0, instruction);
      }
}

TEST_CASE("emulator: metadata that no sparse matrix has is reported") {
  const auto device = open_emulator();
  const Form half{"m16n8k32", "f32", "f16", "f16", 16, 32, true, 1},
      tf32{"m16n8k16", "f32", "tf32", "tf32", 16, 16, true, 0};
  CHECK(check(*device, half, 1).empty());
  // Lane 2 holds group 0 of row 0 in its low four bits.
  const auto group_is = [](uint32_t bits) { return [bits](auto& e) { e[2] = (e[2] & ~15u) | bits; }; };
  for (const uint32_t twice : {0b0000u, 0b0101u, 0b1010u, 0b1111u})
    CHECK_ERROR(
        check(*device, half, 1, group_is(twice)),
        fmt::format("the metadata of row 0 has {:#06b} for group 0: both stored elements are element {} "
                    "of the four",
                    twice, twice & 3));
  CHECK_ERROR(check(*device, half, 1, group_is(0b0001)),
              "with .sp::ordered_metadata, the two elements of a group must ascend");
  CHECK_ERROR(check(*device, tf32, 1, [](auto& e) { e[1] = 0; }), "for .tf32 it must be 0b0100 or 0b1110");
  // If "ordered_metadata" is absent, the two elements may be stored in either order.
  Form any_order = half;
  any_order.ordered = false;
  CHECK(check(*device, any_order, 1).empty());
  any_order.descending = true;
  CHECK(check(*device, any_order, 1).empty());
  CHECK_ERROR(check(*device, any_order, 1, group_is(0b0101)),
              "both stored elements are element 1 of the four");
  Form beyond = half;
  beyond.selector = 2;
  CHECK_ERROR(check(*device, beyond, 1, [](auto&) {}),
              "its operands should be: mma.sp::ordered_metadata.sync.aligned.m16n8k32");
}

// Checks a sparse product of a warpgroup, of 64 x k by k x 8, without a swizzle. Units of 8 rows by 16 bytes
// follow each other along K; those of B's columns do too.
std::string check_wgmma(Device& device, const std::string& type, const std::string& d, bool in_registers,
                        int selector, const std::function<void(std::vector<uint32_t>&)>& spoil = {}) {
  const int bits = element_bits(type), k = 2 * 256 / bits;
  std::mt19937 engine(static_cast<uint32_t>(k + selector));
  Matrix a = random_matrix(64, k, type, engine);
  const Matrix b = random_matrix(8, k, type, engine);
  const Stored stored = make_sparse(a, k, bits, engine);
  const auto in_unit = static_cast<size_t>(128 / bits);
  auto packed = [&](const Matrix& m) {  // the layout in shared memory
    std::vector<uint32_t> words(m.size() * m[0].size() * static_cast<size_t>(bits) / 32);
    for (size_t row = 0; row < m.size(); ++row)
      for (size_t column = 0; column < m[0].size(); ++column) {
        const size_t unit = row / 8 * (m[0].size() / in_unit) + column / in_unit;
        const size_t at = unit * 8 * 128 + row % 8 * 128 + column % in_unit * static_cast<size_t>(bits);
        words[at / 32] |= static_cast<uint32_t>(code(m[row][column], type)) << (at % 32);
      }
    return words;
  };
  std::vector<uint32_t> words = packed(stored.values), of_b = packed(b), registers, e;
  words.insert(words.end(), of_b.begin(), of_b.end());
  for (size_t warp = 0; warp < 4; ++warp) {
    const auto of_warp = metadata(stored, 16 * warp, bits, selector);
    e.insert(e.end(), of_warp.begin(), of_warp.end());
    const Matrix rows(stored.values.begin() + static_cast<std::ptrdiff_t>(16 * warp),
                      stored.values.begin() + static_cast<std::ptrdiff_t>(16 * warp + 16));
    for (const auto& lane : fragment(rows, type, true))
      for (uint64_t word : lane) registers.push_back(static_cast<uint32_t>(word));
  }
  if (spoil) spoil(e);
  const size_t a_words = words.size() - of_b.size();
  words.insert(words.end(), registers.begin(), registers.end());
  words.insert(words.end(), e.begin(), e.end());
  const bool whole = d == "s32", half = d == "f16", transposable = bits == 16;
  const size_t results = half ? 2 : 4;
  const size_t shared = a_words + of_b.size();
  const std::string text = fmt::format(
      R"(.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{
.shared .align 128 .b8 tile[{0}]; .reg .b32 %r<8>, %a<4>, %d<4>, %e; .reg .b64 %x, %y, %z, %da, %db; .reg .pred %p;
ld.param.u64 %x, [in]; ld.param.u64 %y, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %r0; mov.u32 %r5, tile;
L: mul.wide.u32 %z, %r1, 4; add.s64 %z, %x, %z; ld.global.b32 %r2, [%z]; shl.b32 %r3, %r1, 2; add.u32 %r3, %r3, %r5;
st.shared.b32 [%r3], %r2; add.u32 %r1, %r1, 128; setp.lt.u32 %p, %r1, {1}; @%p bra L;
mul.wide.u32 %z, %r0, 16; add.s64 %z, %x, %z; ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%z+{2}];
mul.wide.u32 %z, %r0, 4; add.s64 %z, %x, %z; ld.global.b32 %e, [%z+{3}];
mov.b32 %d0, 0; mov.b32 %d1, 0; mov.b32 %d2, 0; mov.b32 %d3, 0;
fence.proxy.async; bar.sync 0;
shr.u32 %r4, %r5, 4; cvt.u64.u32 %da, %r4; or.b64 %da, %da, {4}; add.u32 %r4, %r5, {5}; shr.u32 %r4, %r4, 4; cvt.u64.u32 %db, %r4;
or.b64 %db, %db, {6};
setp.ne.u32 %p, %r0, %r0;
wgmma.fence.sync.aligned;
wgmma.mma_async.sp.sync.aligned.m64n8k{7}.{8}.{9}.{9} {10}, {11}, %db, %e, {12}, %p{13};
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
mul.wide.u32 %z, %r0, {14}; add.s64 %y, %y, %z; {15}
ret;
}}
)",
      4 * shared, shared, 4 * shared, 4 * (shared + registers.size()),
      uint64_t{128 >> 4} << 16 | uint64_t{256 >> 4} << 32, 4 * a_words,
      uint64_t{128 >> 4} << 16 | uint64_t{512 >> 4} << 32, k, d, type, names("d", results),
      in_registers ? "{%a0, %a1, %a2, %a3}" : "%da", selector,
      whole          ? ""
      : transposable ? (in_registers ? ", 1, 1, 0" : ", 1, 1, 0, 0")
                     : ", 1, 1",
      4 * results,
      half ? "st.global.v2.b32 [%y], {%d0, %d1};" : "st.global.v4.b32 [%y], {%d0, %d1, %d2, %d3};");
  const auto got = run_of<uint32_t>(device, text, 128, words, results);
  for (size_t thread = 0; thread < 128; ++thread)
    for (size_t r = 0; r < 4; ++r) {
      const size_t row = thread / 32 * 16 + thread % 32 / 4 + 8 * (r / 2), column = thread % 4 * 2 + r % 2;
      const uint32_t word = got[thread * results + (half ? r / 2 : r)];
      const int is = value_of(half ? word >> (16 * (r % 2)) & 0xffff : word, d),
                right = product(a, b, row, column, "");
      if (is != right)
        return fmt::format("wgmma.sp {} {} {} {}: element {}, {} is {}, not {}", type, d, in_registers,
                           selector, row, column, is, right);
    }
  return {};
}

TEST_CASE("wgmma.mma_async.sp multiplies as the host does, A in shared memory and in registers") {
  const auto device = open_device(device_name);
  struct Case {
    const char *type, *d;
    int selectors;
  };
  for (const Case& c : {Case{"f16", "f16", 2}, Case{"f16", "f32", 2}, Case{"bf16", "f32", 2},
                        Case{"tf32", "f32", 2}, Case{"e4m3", "f32", 1}, Case{"s8", "s32", 1}})
    for (int selector = 0; selector < c.selectors; ++selector)
      for (bool in_registers : {false, true}) {
        const std::string wrong = check_wgmma(*device, c.type, c.d, in_registers, selector);
        CHECK_MESSAGE(wrong.empty(), wrong);
      }
}

TEST_CASE("emulator: metadata of wgmma that names an element twice is reported, and only where it is read") {
  const auto device = open_emulator();
  // Lane 0 holds group 0 of rows 0 and 8 of the second warp if the selector is 0, and lane 2 if it is 1.
  const auto twice = [](size_t lane) {
    return [lane](auto& e) { e[32 + lane] = (e[32 + lane] & ~15u) | 0b1010; };
  };
  CHECK_ERROR(check_wgmma(*device, "bf16", "f32", false, 0, twice(0)),
              "the metadata of row 0 has 0b1010 for group 0: both stored elements are element 2 of the four");
  CHECK(check_wgmma(*device, "bf16", "f32", false, 0, twice(2)).empty());
  CHECK_ERROR(check_wgmma(*device, "bf16", "f32", false, 1, twice(2)), "both stored elements are element 2");
  CHECK_ERROR(check_wgmma(*device, "tf32", "f32", false, 0, [](auto& e) { e[0] &= ~15u; }),
              "for .tf32 it must be 0b0100 or 0b1110");
  CHECK_ERROR(check_wgmma(*device, "e4m3", "f32", false, 0, [](auto& e) { e[3] = 0; }),
              "both stored elements are element 0");
}

}  // namespace
}  // namespace ptxbuilder::test::emulator_mma_test
