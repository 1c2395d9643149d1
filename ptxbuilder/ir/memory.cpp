#include "ptxbuilder/ir/memory.h"

#include <fmt/format.h>

#include "ptxbuilder/ir/state.h"

namespace ptxbuilder {
namespace {

// A conversion in a printf format: its letter, which is 'd', 'u', 'c', 'f' or 'p', and whether it has the
// long long form.
struct Conversion {
  char letter;
  bool wide;
};

std::vector<Conversion> conversions(std::string_view format) {
  std::vector<Conversion> found;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') continue;
    if (++i < format.size() && format[i] == '%') continue;
    while (i < format.size() && std::string_view("-+ #0123456789.").find(format[i]) != std::string_view::npos)
      ++i;
    size_t longs = 0;
    while (i < format.size() && format[i] == 'l') ++i, ++longs;
    if (i == format.size() || std::string_view("diuxXocfeEgGp").find(format[i]) == std::string_view::npos ||
        longs == 1)
      throw Error(
          fmt::format("print: the conversion at column {} of \"{}\" must be one of %d %i %u %x %o %c %f %e "
                      "%g %p, or such a conversion with ll",
                      i, format));
    found.push_back({format[i], longs > 0 || format[i] == 'p'});
  }
  return found;
}

// Converts a value according to C's default promotions for a variadic function.
llvm::Value* promote(Builder::State& s, Value value, Conversion to, std::string_view format) {
  llvm::Value* v = value.handle();
  check_is_ours(s, v);
  llvm::Type* type = v->getType();
  bool is_float = std::string_view("feEgG").find(to.letter) != std::string_view::npos;
  if (is_float && type->isFloatingPointTy()) return s.ir.CreateFPCast(v, s.ir.getDoubleTy());
  if (!is_float && type->isPointerTy() && to.wide) return s.ir.CreatePtrToInt(v, s.ir.getInt64Ty());
  if (!is_float && type->isIntegerTy() && (type->getIntegerBitWidth() == 64) == to.wide)
    return s.ir.CreateIntCast(v, to.wide ? s.ir.getInt64Ty() : s.ir.getInt32Ty(),
                              (to.letter == 'd' || to.letter == 'i') && !type->isIntegerTy(1));
  throw Error(fmt::format("print: %{}{} in \"{}\" does not print a value that is {}", to.wide ? "ll" : "",
                          to.letter, format, describe(type)));
}

}  // namespace

namespace detail {

llvm::Value* load(llvm::Value* address, Class cls, int count) {
  Builder::State& s = Builder::current().state();
  check_is_ours(s, address);
  llvm::Type* type = type_of(cls, s.context);
  if (count > 1) type = llvm::FixedVectorType::get(type, static_cast<unsigned>(count));
  llvm::Align alignment(s.module->getDataLayout().getTypeStoreSize(type).getFixedValue());
  return s.ir.CreateAlignedLoad(type, address, alignment);
}

llvm::Value* element(llvm::Value* vector, int i) {
  if (!vector->getType()->isVectorTy()) return vector;
  return Builder::current().state().ir.CreateExtractElement(vector, static_cast<uint64_t>(i));
}

void store(llvm::Value* address, std::span<const Value> values) {
  Builder::State& s = Builder::current().state();
  check_is_ours(s, address);
  for (Value v : values) check_is_ours(s, v.handle());
  llvm::Value* stored = values[0].handle();
  if (values.size() > 1) {
    auto* type = llvm::FixedVectorType::get(stored->getType(), static_cast<unsigned>(values.size()));
    stored = llvm::PoisonValue::get(type);
    for (size_t i = 0; i < values.size(); ++i)
      stored = s.ir.CreateInsertElement(stored, values[i].handle(), i);
  }
  llvm::Align alignment(s.module->getDataLayout().getTypeStoreSize(stored->getType()).getFixedValue());
  s.ir.CreateAlignedStore(stored, address, alignment);
}

}  // namespace detail

void print(std::string_view format, std::initializer_list<Value> values, Where where) {
  AtLine line(where);
  Builder& builder = Builder::current();
  Builder::State& s = builder.state();
  s.function_or_create();
  std::vector<Conversion> wanted = conversions(format);
  if (wanted.size() != values.size() || values.size() > 32)
    throw Error(fmt::format("print: \"{}\" converts {} values, but {} were given (at most 32 are allowed)",
                            format, wanted.size(), values.size()));
  std::vector<llvm::Value*> fields;
  std::vector<llvm::Type*> types;
  size_t i = 0;
  for (Value v : values) {
    fields.push_back(promote(s, v, wanted[i++], format));
    types.push_back(fields.back()->getType());
  }

  // Calls vprintf(format, buffer), where the buffer is laid out as a struct of the values (CUDA programming
  // guide, "Formatted Output").
  llvm::Type* pointer = s.ir.getPtrTy();
  llvm::Value* buffer = llvm::ConstantPointerNull::get(llvm::cast<llvm::PointerType>(pointer));
  if (!fields.empty()) {
    auto* type = llvm::StructType::get(s.context, types);
    auto* cell = new llvm::AllocaInst(type, s.module->getDataLayout().getAllocaAddrSpace(), "",
                                      s.entry_end->getIterator());
    cell->setAlignment(llvm::Align(8));
    for (unsigned f = 0; f < fields.size(); ++f)
      s.ir.CreateStore(fields[f], s.ir.CreateStructGEP(type, cell, f));
    buffer = s.ir.CreateAddrSpaceCast(cell, pointer);
    builder.waive("stack");
  }
  auto* text = llvm::ConstantDataArray::getString(s.context, llvm::StringRef(format.data(), format.size()));
  auto* global =
      new llvm::GlobalVariable(*s.module, text->getType(), true, llvm::GlobalValue::PrivateLinkage, text,
                               "format", nullptr, llvm::GlobalValue::NotThreadLocal, kGlobalSpace);
  auto* type = llvm::FunctionType::get(s.ir.getInt32Ty(), {pointer, pointer}, false);
  s.ir.CreateCall(s.module->getOrInsertFunction("vprintf", type),
                  {s.ir.CreateAddrSpaceCast(global, pointer), buffer});
}

}  // namespace ptxbuilder
