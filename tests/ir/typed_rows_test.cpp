// Every row of the table has a typed call, which emits what Builder::emit does with the row that the table
// has.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "library_kit.h"
#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/isa/query.h"
#include "ptxbuilder/isa/rows.h"

namespace ptxbuilder::test::typed_rows_test {
namespace {

// The forms among those that `each` calls a function with.
template <class Form, auto each>
constexpr auto forms() {
  constexpr size_t count = [] {
    size_t n = 0;
    each([&](const Form&) { ++n; });
    return n;
  }();
  std::array<Form, count> all = {};
  size_t n = 0;
  each([&](const Form& form) { all[n++] = form; });
  return all;
}

// The forms of each family, from axes that this test spells out.
constexpr std::array kOfTensorCores = {DType::f16, DType::bf16, DType::tf32, DType::e4m3, DType::e5m2,
                                       DType::s8,  DType::u8,   DType::f32,  DType::s32};

constexpr auto each_types = [](auto body) {
  for (DType d : {DType::f16, DType::f32, DType::s32})
    for (DType a : kOfTensorCores)
      for (DType b : kOfTensorCores)
        if (isa::has_types({d, a, b})) body(d, a, b);
};
constexpr auto each_wgmma = [](int n, auto body) {
  each_types([&](DType d, DType a, DType b) {
    for (bool a_in_registers : {false, true})
      for (bool satfinite : {false, true})
        if (WgmmaForm form = {d, a, b, n, a_in_registers, satfinite}; isa::exists(form)) body(form);
  });
};
constexpr auto each_wgmma_bits = [](int n, auto body) {
  for (bool a_in_registers : {false, true})
    if (WgmmaBitsForm form = {n, a_in_registers}; isa::exists(form)) body(form);
};
// The least, the greatest and some between are compiled: calls of other N differ from these in the length of
// lists.
constexpr std::array kCompiledN = {8, 16, 24, 128, 256};
constexpr auto kWgmma = forms<WgmmaForm, [](auto add) {
  for (int n : kCompiledN) each_wgmma(n, add);
}>();
constexpr auto kWgmmaBits = forms<WgmmaBitsForm, [](auto add) {
  for (int n : kCompiledN) each_wgmma_bits(n, add);
}>();
constexpr auto kMma = forms<MmaForm, [](auto add) {
  each_types([&](DType d, DType a, DType b) {
    for (int k : {2, 4, 8, 16, 32, 64})
      for (bool satfinite : {false, true})
        if (MmaForm form = {d, a, b, k, satfinite}; isa::exists(form)) add(form);
  });
}>();
constexpr auto kLoads = forms<TensorLoadForm, [](auto add) {
  for (int rank : {1, 2, 3, 4, 5})
    for (bool multicast : {false, true})
      for (bool hint : {false, true}) add({rank, multicast, hint});
}>();
constexpr auto kPrefetches = forms<TensorPrefetchForm, [](auto add) {
  for (int rank : {1, 2, 3, 4, 5}) add({rank});
}>();
constexpr auto kStores = forms<TensorStoreForm, [](auto add) {
  for (int rank : {1, 2, 3, 4, 5})
    for (bool hint : {false, true}) add({rank, hint});
}>();
constexpr auto kTensorReductions = forms<TensorReductionForm, [](auto add) {
  for (int rank : {1, 2, 3, 4, 5})
    for (CopyReduction reduction : isa::kCopyReductions)
      for (bool hint : {false, true}) add({rank, reduction, hint});
}>();
constexpr auto kBulkReductions = forms<BulkReductionForm, [](auto add) {
  for (CopyReduction reduction : isa::kCopyReductions)
    for (DType type :
         {DType::u8, DType::s8, DType::u16, DType::s16, DType::u32, DType::s32, DType::u64, DType::s64,
          DType::f16, DType::bf16, DType::tf32, DType::e4m3, DType::e5m2, DType::f32, DType::f64})
      for (bool hint : {false, true})
        if (BulkReductionForm form = {reduction, type, hint}; isa::exists(form)) add(form);
}>();
constexpr std::array kEvictions = {Eviction::normal, Eviction::first, Eviction::last};
constexpr auto kAsyncCopies = forms<AsyncCopyForm, [](auto add) {
  for (int bytes : {4, 8, 16})
    for (bool zfill : {false, true}) add({bytes, zfill});
}>();
constexpr auto kBulkLoads = forms<BulkLoadForm, [](auto add) {
  for (bool multicast : {false, true})
    for (bool hint : {false, true}) add({multicast, hint});
}>();
constexpr std::array kBulkStores = {BulkStoreForm{.cache_hint = false}, BulkStoreForm{.cache_hint = true}};
constexpr auto kAcquires = forms<AcquireForm, [](auto add) {
  for (Scope scope : {Scope::gpu, Scope::sys})
    for (DType type : {DType::u32, DType::u64}) add({scope, type});
}>();
constexpr std::array kGlobalScopes = {Scope::gpu, Scope::sys};
constexpr std::array kScopes = {Scope::cta, Scope::cluster, Scope::gpu, Scope::sys};
constexpr std::array kSpaces = {Space::all, Space::shared, Space::global};
constexpr auto kMatrices = forms<MatrixForm, [](auto add) {
  for (int matrices : {1, 2, 4})
    for (bool transposed : {false, true}) add({matrices, transposed});
}>();
constexpr std::array kPacked = {DType::f16, DType::bf16, DType::e4m3, DType::e5m2};
constexpr std::array kFp8 = {DType::e4m3, DType::e5m2};
constexpr std::array kPackedIntegers = {DType::s8, DType::u8};

// A kernel with a value for each class of operand.
class Samples {
 public:
  Samples() : kernel_("samples", {.line_info = false}) {
    auto [global, map] = kernel_.params<gptr<u32>, TensorMap>("global", "map");
    kernel_.encode(map, {.dtype = DType::u32, .box = {32}, .element_strides = {1}});
    const u32 x = tid_x();
    const smem shared = kernel_.builder().shared_base();
    add(x == 0, u16(x), s16(x), f16(x), bf16(x), x, s32(x), f32(x), u64(x), s64(x), f64(x), shared,
        mapa(shared, x), gmem(global), generic_address(gmem(global)), map);
  }

  Builder& builder() { return kernel_.builder(); }

  Value of(Class cls) const {
    if (cls == Class::b16) cls = Class::u16;
    if (cls == Class::b32) cls = Class::u32;
    if (cls == Class::b64) cls = Class::u64;
    return values_.at(cls);
  }
  bool has(Class cls) const {
    return values_.contains(cls) || cls == Class::b16 || cls == Class::b32 || cls == Class::b64;
  }
  std::vector<Class> classes() const {
    std::vector<Class> all;
    for (const auto& [cls, value] : values_) all.push_back(cls);
    return all;
  }
  // The same ones each time.
  Registers registers(const isa::Operand& o) {
    auto [place, is_new] = registers_.try_emplace({o.cls, o.count});
    if (is_new) place->second = builder().declare_registers(o.cls, o.count);
    return place->second;
  }

 private:
  template <class... T>
  void add(T... value) {
    (values_.emplace(T::cls, value), ...);
  }

  Kernel kernel_;
  std::map<Class, Value> values_;
  std::map<std::pair<Class, int>, Registers> registers_;
};

// What a typed call takes.
template <class T>
struct Sample {
  static T of(Samples& samples, const isa::Operand&) { return T(samples.of(T::cls).handle()); }
};
template <>
struct Sample<detail::Immediate> {
  static detail::Immediate of(Samples&, const isa::Operand& o) { return o.least; }
};
template <class T, size_t length>
struct Sample<std::array<T, length>> {
  static std::array<T, length> of(Samples& samples, const isa::Operand& o) {
    CHECK(static_cast<size_t>(o.count) == length);
    return [&]<size_t... i>(std::index_sequence<i...>) {
      return std::array<T, length>{(static_cast<void>(i), Sample<T>::of(samples, o))...};
    }
    (std::make_index_sequence<length>());
  }
};
template <class T, size_t length>
struct Sample<detail::ListOf<T, length>> {
  static detail::ListOf<T, length> of(Samples& samples, const isa::Operand& o) {
    return Sample<std::array<T, length>>::of(samples, o);
  }
};
template <>
struct Sample<detail::NamedList> {
  static detail::NamedList of(Samples& samples, const isa::Operand& o) { return samples.registers(o); }
};

const isa::Operand& nth_read(const isa::Row& row, size_t n) {
  size_t i = 0;
  while (!row.operands[i].reads() || n-- > 0) ++i;
  return row.operands[i];
}

// A typed call's row, and a function that makes the call.
struct TypedCall {
  const isa::Row* row;
  bool named;              // whether accumulators are named registers
  void (*emit)(Samples&);  // none if this would take the compiler long, for the sake of a longer list alone
};

template <class Call>
struct Emission;
template <const isa::Row& row, bool named, size_t... in, size_t... out>
struct Emission<detail::Call<row, named, std::index_sequence<in...>, std::index_sequence<out...>>> {
  using Call = detail::Call<row, named, std::index_sequence<in...>, std::index_sequence<out...>>;
  static void run(Samples& samples) {
    Call()(Sample<detail::InputOf<row, named, in>>::of(samples, nth_read(row, in))...);
  }
  static void add_to(std::vector<TypedCall>& calls) {
    if constexpr (((detail::nth_slot(row, false, named, in).length <= 4) && ...))
      calls.push_back({&row, named, run});
    else
      calls.push_back({&row, named, nullptr});
  }
};
template <const isa::Row& row>
struct Emission<detail::AccumulatingCall<row>> {
  static void add_to(std::vector<TypedCall>& calls) {
    Emission<detail::CallWith<row, false>>::add_to(calls);
    Emission<detail::CallWith<row, true>>::add_to(calls);
  }
};

template <class Call>
void add(std::vector<TypedCall>& calls, const Call&) {
  Emission<Call>::add_to(calls);
}

#define FAMILY(name, all)                                                          \
  [&]<size_t... i>(std::index_sequence<i...>) { (add(calls, name<all[i]>), ...); } \
  (std::make_index_sequence<all.size()>())

std::vector<TypedCall> typed_calls() {
  std::vector<TypedCall> calls;
#define PTX_ROW(name, ...) add(calls, ptxbuilder::name);  // time.h has a clock() too
#define PTX_INTRINSIC(name, ...) add(calls, ptxbuilder::name);
#include "ptxbuilder/isa/rows.def"
#undef PTX_ROW
#undef PTX_INTRINSIC
  FAMILY(wgmma_mma_async, kWgmma);
  FAMILY(wgmma_mma_async_bits, kWgmmaBits);
  FAMILY(mma_sync, kMma);
  FAMILY(createpolicy_evict, kEvictions);
  FAMILY(cp_async, kAsyncCopies);
  FAMILY(cp_async_bulk_load, kBulkLoads);
  FAMILY(cp_async_bulk_store, kBulkStores);
  FAMILY(cp_async_bulk_tensor_load, kLoads);
  FAMILY(cp_async_bulk_tensor_prefetch, kPrefetches);
  FAMILY(cp_async_bulk_tensor_store, kStores);
  FAMILY(cp_reduce_async_bulk_tensor, kTensorReductions);
  FAMILY(cp_reduce_async_bulk, kBulkReductions);
  FAMILY(ldmatrix, kMatrices);
  FAMILY(stmatrix, kMatrices);
  FAMILY(cvt_pack, kPacked);
  FAMILY(cvt_pack_integer, kPackedIntegers);
  FAMILY(cvt_f16x2_from, kFp8);
  FAMILY(cvt_f16x2_to, kFp8);
  FAMILY(ld_acquire, kAcquires);
  FAMILY(red_release_add, kGlobalScopes);
  FAMILY(atom_acquire_cas, kGlobalScopes);
  FAMILY(fence_acq_rel, kScopes);
  FAMILY(fence_proxy_async, kSpaces);
  return calls;
}

void emit_from_table(Samples& samples, const isa::Row& row, bool named) {
  std::vector<Argument> arguments;
  for (const isa::Operand& o : row.operands) {
    if (!o.reads()) continue;
    if (o.cls == Class::imm)
      arguments.emplace_back(o.least);
    else if (named && o.list && o.writes())
      arguments.emplace_back(samples.registers(o));
    else if (o.list)
      arguments.emplace_back(std::vector<Value>(static_cast<size_t>(o.count), samples.of(o.cls)));
    else
      arguments.emplace_back(samples.of(o.cls));
  }
  samples.builder().emit(row, arguments, std::nullopt);
}

// What LLVM knows of a class.
std::string_view shape_of(Class cls) {
  switch (cls) {
    case Class::b8:
    case Class::b16:
    case Class::u16:
    case Class::s16:
      return "16 bits";
    case Class::b32:
    case Class::u32:
    case Class::s32:
      return "32 bits";
    case Class::b64:
    case Class::u64:
    case Class::s64:
      return "64 bits";
    case Class::generic:
    case Class::tmap:
      return "generic address";
    default:
      return name(cls);
  }
}

// Bits take whatever is as wide.
bool may_fill(Class operand, Class value) {
  const auto one_of = [&](std::initializer_list<Class> classes) {
    return std::ranges::count(classes, value) > 0;
  };
  return shape_of(operand) == shape_of(value) ||
         (operand == Class::b16 && one_of({Class::f16, Class::bf16})) ||
         (operand == Class::b32 && one_of({Class::f32, Class::smem, Class::cluster})) ||
         (operand == Class::b64 && one_of({Class::f64, Class::gmem, Class::generic, Class::tmap}));
}

}  // namespace

TEST_CASE("every row of the table has a typed call of the same text, and no call has a row of its own") {
  std::set<std::string, std::less<>> called;
  std::string unknown, differs, without;
  const auto call_of = [&](const isa::Row& typed) {
    const isa::Row* row = isa::find(typed.name);
    called.emplace(typed.name);
    if (!row)
      unknown += std::string(typed.name) + " ";
    else if (typed.syntax != row->syntax || typed.effect != row->effect || typed.targets != row->targets ||
             typed.ptx_version != row->ptx_version || typed.intrinsic != row->intrinsic)
      differs += std::string(typed.name) + " ";
  };
  for (const TypedCall& call : typed_calls()) call_of(*call.row);
  for (int n = 0; n <= 264; n += 8) {  // what the calls take their rows from
    each_wgmma(n, [&](const WgmmaForm& form) { call_of(isa::wgmma_mma_async_row(form).row()); });
    each_wgmma_bits(n,
                    [&](const WgmmaBitsForm& form) { call_of(isa::wgmma_mma_async_bits_row(form).row()); });
  }
  for (const isa::Row& row : isa::rows())
    if (!called.contains(row.name)) without += std::string(row.name) + " ";
  CHECK(unknown == "");
  CHECK(differs == "");
  CHECK(without == "");
  CHECK(called.size() == isa::rows().size());
}

TEST_CASE("typed calls emit what the rows of the table say") {
  Samples samples;
  size_t instructions = 0;
  for (const TypedCall& call : typed_calls()) {
    if (!call.emit) continue;
    call.emit(samples);
    emit_from_table(samples, *isa::find(call.row->name), call.named);
    instructions += call.row->intrinsic.empty();
  }
  CHECK(instructions > 400);
  std::istringstream ir(samples.builder().llvm_ir());
  std::vector<std::string> emitted;  // text, constraints and values
  for (std::string line; std::getline(ir, line);)
    if (const size_t at = line.find(" asm "); at != std::string::npos && !contains(line, "\".reg "))
      emitted.push_back(line.substr(at, line.rfind(')') - at));
  REQUIRE(emitted.size() == 2 * instructions + 1);  // one to make the samples
  std::string differs;
  for (size_t i = 1; i + 1 < emitted.size(); i += 2)
    if (emitted[i] != emitted[i + 1]) differs += emitted[i] + "\n" + emitted[i + 1] + "\n";
  CHECK(differs == "");
}

// By C++ where the call is typed; here as for a caller that has values of LLVM's alone.
TEST_CASE("a value of a wrong class is refused: random rows of the manual, operands and classes") {
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  Samples samples;
  const std::vector<Class> classes = samples.classes();
  std::vector<const isa::Form*> forms;
  for (const isa::Form& form : isa::detail::kManual)
    if (!isa::detail::is_title(form)) forms.push_back(&form);
  int accepted = 0, refused = 0;
  while (accepted + refused < 2000) {
    std::vector<std::string> keys;
    isa::for_each_row(*forms[random() % forms.size()],
                      [&](const isa::MadeRow& row) { keys.emplace_back(row.name.view()); });
    const isa::Row& row = isa::instruction(keys[random() % keys.size()]);
    std::vector<size_t> read;
    for (size_t i = 0; i < row.operands.size(); ++i)
      if (row.operands[i].reads() && row.operands[i].cls != Class::imm) read.push_back(i);
    const auto has_sample = [&](size_t i) { return samples.has(row.operands[i].cls); };
    if (!row.targets.has(isa::Sm::sm_90a) || read.empty() || !std::ranges::all_of(read, has_sample)) continue;
    const size_t wrong = read[random() % read.size()];
    const Class given = classes[random() % classes.size()];
    std::vector<Argument> arguments;
    for (size_t i = 0; i < row.operands.size(); ++i) {
      const isa::Operand& o = row.operands[i];
      if (!o.reads()) continue;
      if (o.cls == Class::imm) {
        arguments.emplace_back(o.least);
        continue;
      }
      std::vector<Value> values(static_cast<size_t>(o.count), samples.of(o.cls));
      if (i == wrong) values[random() % values.size()] = samples.of(given);
      arguments.push_back(o.list ? Argument(values) : Argument(values[0]));
    }
    const std::string text = error_of([&] { samples.builder().emit(row, arguments, std::nullopt); });
    const isa::Operand& o = row.operands[wrong];
    CAPTURE(row.name);
    CAPTURE(name(given));
    if (may_fill(o.cls, given)) {
      ++accepted;
      CHECK(text == "");
    } else {
      ++refused;
      CHECK(contains(text, fmt::format("operand '{}' is {}, but the value given is ", o.name, name(o.cls))));
    }
  }
  MESSAGE("seed " << seed << ": " << accepted << " accepted, " << refused << " refused");
  CHECK(accepted > 100);
}

// The text is what is compiled, without its spaces: clang-format may break it.
TEST_CASE("the typed call that is told of a row is its call") {
  const auto check = [](const isa::Row& row, std::string text) {
    std::string told(isa::typed_call(row));
    for (std::string* t : {&text, &told}) std::erase_if(*t, [](char c) { return std::isspace(c) != 0; });
    CHECK(text == told);
    CHECK(isa::example(row).find(std::string(isa::typed_call(row)) + "(") != std::string::npos);
  };
#define IS_CALLED(...)                     \
  check(isa::__VA_ARGS__(), #__VA_ARGS__); \
  static_cast<void>(__VA_ARGS__)
  IS_CALLED(wgmma_mma_async<WgmmaForm{.d = DType::f32, .a = DType::bf16, .b = DType::bf16, .n = 64}>);
  IS_CALLED(wgmma_mma_async<WgmmaForm{.d = DType::s32,
                                      .a = DType::s8,
                                      .b = DType::u8,
                                      .n = 8,
                                      .a_in_registers = true,
                                      .satfinite = true}>);
  IS_CALLED(wgmma_mma_async_bits<WgmmaBitsForm{.n = 16, .a_in_registers = true}>);
  IS_CALLED(mma_sync<MmaForm{.d = DType::s32, .a = DType::s8, .b = DType::s8, .k = 16, .satfinite = true}>);
  IS_CALLED(createpolicy_evict<Eviction::first>);
  IS_CALLED(cp_async<AsyncCopyForm{.bytes = 4, .zfill = true}>);
  IS_CALLED(cp_async_bulk_load<BulkLoadForm{}>);
  IS_CALLED(cp_async_bulk_load<BulkLoadForm{.multicast = true, .cache_hint = true}>);
  IS_CALLED(cp_async_bulk_store<BulkStoreForm{.cache_hint = true}>);
  IS_CALLED(cp_async_bulk_tensor_load<TensorLoadForm{.rank = 2, .multicast = true}>);
  IS_CALLED(cp_async_bulk_tensor_prefetch<TensorPrefetchForm{.rank = 5}>);
  IS_CALLED(cp_async_bulk_tensor_store<TensorStoreForm{.rank = 3, .cache_hint = true}>);
  IS_CALLED(cp_reduce_async_bulk_tensor<TensorReductionForm{.rank = 1, .reduction = CopyReduction::bit_xor}>);
  IS_CALLED(cp_reduce_async_bulk<BulkReductionForm{
                .reduction = CopyReduction::add, .type = DType::bf16, .cache_hint = true}>);
  IS_CALLED(ldmatrix<MatrixForm{.matrices = 4}>);
  IS_CALLED(stmatrix<MatrixForm{.matrices = 2, .transposed = true}>);
  IS_CALLED(cvt_pack<DType::e4m3>);
  IS_CALLED(cvt_pack_integer<DType::u8>);
  IS_CALLED(cvt_f16x2_from<DType::e5m2>);
  IS_CALLED(cvt_f16x2_to<DType::e4m3>);
  IS_CALLED(ld_acquire<AcquireForm{.scope = Scope::sys, .type = DType::u64}>);
  IS_CALLED(red_release_add<Scope::gpu>);
  IS_CALLED(atom_acquire_cas<Scope::sys>);
  IS_CALLED(fence_acq_rel<Scope::cluster>);
  IS_CALLED(fence_proxy_async<Space::shared>);
#undef IS_CALLED
}

}  // namespace ptxbuilder::test::typed_rows_test
