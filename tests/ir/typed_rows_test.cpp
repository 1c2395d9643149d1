// Tests that a typed call has the row of the run-time table, and emits what Builder::emit does with that row.
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
  // Returns the same registers each time.
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

// The arguments of a typed call.
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
  bool named;  // whether accumulators are named registers
  void (*emit)(
      Samples&);  // empty if the call differs only in a longer list, because such calls take long to compile
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

// Checks that typed calls have the rows of the table, and emit the same text, constraints and values.
// Finishes the kernel of the samples.
void check_same(Samples& samples, const std::vector<TypedCall>& calls) {
  size_t instructions = 0;
  for (const TypedCall& call : calls) {
    const isa::Row& row = *isa::find(call.row->name);
    CAPTURE(row.name);
    CHECK(call.row->syntax == row.syntax);
    CHECK(call.row->effect == row.effect);
    CHECK(call.row->targets == row.targets);
    CHECK(call.row->ptx_version == row.ptx_version);
    CHECK(call.row->early == row.early);
    CHECK(call.row->intrinsic == row.intrinsic);
    if (!call.emit) continue;
    call.emit(samples);
    emit_from_table(samples, row, call.named);
    instructions += row.intrinsic.empty();
  }
  std::istringstream ir(samples.builder().llvm_ir());
  std::vector<std::string> emitted;
  for (std::string line; std::getline(ir, line);)
    if (const size_t at = line.find(" asm "); at != std::string::npos && !contains(line, "\".reg "))
      emitted.push_back(line.substr(at, line.rfind(')') - at));
  REQUIRE(emitted.size() == 2 * instructions + 1);  // one more, for the samples
  for (size_t i = 1; i + 1 < emitted.size(); i += 2) CHECK(emitted[i] == emitted[i + 1]);
}

// Returns the name of LLVM's type for a class.
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

// Returns whether an operand accepts a value. Bits accept any value of the same width.
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

TEST_CASE("typed calls with short names emit the table's text") {
  Samples samples;
  std::vector<TypedCall> calls;
#define ADD_CALL(name) add(calls, ptxbuilder::name);  // qualified, because time.h has a clock() too
  PTXBUILDER_SHORT_NAMES(ADD_CALL)
#undef ADD_CALL
  CHECK(calls.size() > 90);
  check_same(samples, calls);
}

// C++ refuses such a value in a typed call. Here, the caller passes plain LLVM values.
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

// Texts are compared without spaces, since clang-format may break them.
TEST_CASE("the typed call of a member is the reported one, and emits the table's text") {
  Samples samples;
  std::vector<TypedCall> calls;
  const auto check = [&](const isa::Row& row, const auto& typed, std::string text) {
    std::string told(isa::typed_call(row));
    for (std::string* t : {&text, &told}) std::erase_if(*t, [](char c) { return std::isspace(c) != 0; });
    CHECK(text == told);
    CHECK(isa::example(row).find(std::string(isa::typed_call(row)) + "(") != std::string::npos);
    add(calls, typed);
  };
#define IS_CALLED(...) check(*isa::find(isa::__VA_ARGS__().name), __VA_ARGS__, #__VA_ARGS__)
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
  IS_CALLED(cp_async<AsyncCopyForm{.bytes = 16}>);
  IS_CALLED(cp_async_bulk_load<BulkLoadForm{}>);
  IS_CALLED(cp_async_bulk_load<BulkLoadForm{.multicast = true, .cache_hint = true}>);
  IS_CALLED(cp_async_bulk_store<BulkStoreForm{.cache_hint = true}>);
  IS_CALLED(cp_async_bulk_tensor_load<TensorLoadForm{.rank = 2, .multicast = true}>);
  IS_CALLED(cp_async_bulk_tensor_im2col_load<Im2colLoadForm{.rank = 4, .cache_hint = true}>);
  IS_CALLED(cp_async_bulk_tensor_prefetch<TensorPrefetchForm{.rank = 5}>);
  IS_CALLED(cp_async_bulk_tensor_store<TensorStoreForm{.rank = 3, .cache_hint = true}>);
  IS_CALLED(cp_reduce_async_bulk_tensor<TensorReductionForm{.rank = 1, .reduction = CopyReduction::bit_xor}>);
  IS_CALLED(cp_reduce_async_bulk<BulkReductionForm{
                .reduction = CopyReduction::add, .type = DType::bf16, .cache_hint = true}>);
  IS_CALLED(cp_reduce_async_bulk<BulkReductionForm{.reduction = CopyReduction::bit_and, .type = DType::u64}>);
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
  IS_CALLED(fence_proxy_async<Space::all>);
#undef IS_CALLED
  check_same(samples, calls);
}

}  // namespace ptxbuilder::test::typed_rows_test
