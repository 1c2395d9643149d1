#include "ptxbuilder/tile/cooperative_copy.h"

#include <fmt/format.h>

#include "ptxbuilder/plan/offsets.h"
#include "ptxbuilder/tile/thread_address.h"

namespace ptxbuilder {
namespace {

using Kind = CopyAtom::Kind;
using SharedAddresses = detail::ThreadAddresses<smem, Index>;

// Returns the row and column of an access's first element. A tuple may have fewer coordinates if all further
// coordinates are 0.
template <class I>
std::pair<I, I> coordinates_of(const BasicLayout<I>& coordinates, const I& thread, int access) {
  BasicTuple<I> at = image<I>({thread, I(access)}, coordinates);
  return {at[0].value(), rank(at) > 1 ? at[1].value() : I(0)};
}

// Records accesses [first, first + count) of a view.
void record(ThreadCopyRecord::Kind kind, std::string_view verb, const TiledCopy& copy,
            const SharedPlace& place, int first, int count) {
  if (!place.view) return;
  const CopyAtom& atom = copy.atom();
  ThreadCopyRecord r;
  r.kind = kind;
  r.text = fmt::format("{} by {}", verb, copy.describe());
  r.dtype = copy.dtype();
  r.bytes = atom.bytes();
  r.matrices = atom.is_matrix() ? atom.matrices() : 0;
  r.trans = atom.transposed();
  const Layout coordinates = copy.coordinates();
  const int64_t rows = size(copy.memory().layout().shape()[0]);
  const std::vector<int64_t> of_thread = offsets_of(copy.thread_value()[0]);
  const std::vector<int64_t> of_value = offsets_of(copy.thread_value()[1]);
  detail::record_access(std::move(r), place, copy.access(), first, count, [&](int thread, int access, int i) {
    if (kind == ThreadCopyRecord::Kind::from_global) {
      const auto [row, col] = coordinates_of(coordinates, int64_t{thread}, access);
      return ElementRecord{static_cast<int>(row), static_cast<int>(col) + i};
    }
    const int64_t e = of_thread[static_cast<size_t>(thread)] +
                      of_value[static_cast<size_t>(access * copy.access_values() + i)];
    return ElementRecord{static_cast<int>(e % rows), static_cast<int>(e / rows)};
  });
}

// Notifies the stage if `to` is in a producer's stage.
void tell(const SharedPlace& to, std::string_view operation, bool by_cp_async) {
  if (to.filling) to.filling->filling()->write(*to.filling, operation, by_cp_async);
}

// Remembers the registers that the most recently recorded copy has loaded.
void remember(const std::vector<u32>& registers) {
  detail::TileContext& context = detail::TileContext::of(Builder::current());
  const int copy = static_cast<int>(context.record.thread_copies.size()) - 1;
  for (size_t i = 0; i < registers.size(); ++i)
    context.loaded_words[registers[i].handle()] = {copy, static_cast<int>(i)};
}

// Computes the addresses of accesses in a row-major matrix, and their rows and columns.
class GlobalAddresses {
 public:
  GlobalAddresses(const TiledCopy& copy, const GlobalTile& tile, u32 thread)
      : copy_(copy), tile_(tile), thread_(thread), coordinates_(to_device(copy.coordinates())) {
    // The elements of an access must be adjacent in global memory too.
    const IntTuple& shape = copy.memory().layout().shape();
    ComposedLayout rows = panel_layout(copy.dtype(), size(shape[0]), size(shape[1]), Swizzle::none);
    TiledCopy(CopyAtom::vector(copy.atom().bytes()), copy.dtype(), copy.thread_value(), rows);
    if (tile.col_stride.known() != 1)
      throw Error(fmt::format("{}: in global memory the columns have stride {}, which must be 1",
                              copy.describe(),
                              tile.col_stride.known() ? std::to_string(*tile.col_stride.known()) : "?"));
  }

  struct Place {
    gmem address;
    std::optional<pred> inside;
  };
  Place operator()(int access) const {
    const auto at = coordinates_of(coordinates_, thread_, access);
    u32 row = at.first.value(), col = at.second.value();
    const auto bytes = static_cast<uint32_t>(size_of(copy_.dtype()));
    Place place{tile_.address + (tile_.row_stride.times(row) + u64(col)) * bytes, std::nullopt};
    if (tile_.rows) place.inside = s32(row) < *tile_.rows;
    if (tile_.cols)
      place.inside = place.inside ? *place.inside && s32(col) < *tile_.cols : s32(col) < *tile_.cols;
    return place;
  }

 private:
  const TiledCopy& copy_;
  const GlobalTile& tile_;
  Index thread_;
  DeviceLayout coordinates_;
};

constexpr uint32_t kNoRow = ~uint32_t{0};  // larger than any row number

void check_kind(const TiledCopy& copy, std::initializer_list<Kind> kinds, std::string_view operation) {
  for (Kind kind : kinds)
    if (copy.atom().kind() == kind) return;
  throw Error(fmt::format("{}: {} cannot do that", operation, copy.atom().describe()));
}

int registers_of(const TiledCopy& copy, int accesses) {
  return accesses * std::max(1, copy.atom().register_bytes() / 4);
}

void check_accesses(const TiledCopy& copy, int first, int count, std::string_view operation) {
  if (first < 0 || count < 1 || first + count > copy.accesses())
    throw Error(fmt::format("{}: accesses {} to {} are not all part of {}", operation, first,
                            first + count - 1, copy.describe()));
}

// Emit ordinary accesses of `bytes` bytes at an address in shared or global memory.
template <class Address>
void load_vector(Address from, int bytes, std::vector<u32>& to) {
  if (bytes == 1) {
    Var<u16> byte(0);
    const bool global = std::same_as<Address, gmem>;
    ptx(global ? "ld.global.u8 {d:=u16}, [{a:gmem}];" : "ld.shared.u8 {d:=u16}, [{a:smem}];",
        {{"d", byte}, {"a", from}});
    to.emplace_back(byte.value());
  } else if (bytes == 2) {
    to.emplace_back(Pointer<u16, Address>(from)[{0}].value());
  } else {
    auto append = [&](const auto& values) { to.insert(to.end(), values.begin(), values.end()); };
    Pointer<u32, Address> words(from);
    if (bytes == 4) append(load<1>(words));
    if (bytes == 8) append(load<2>(words));
    if (bytes == 16) append(load<4>(words));
  }
}

template <class Address>
void store_vector(Address to, int bytes, const u32* from) {
  if (bytes == 1) {
    const bool global = std::same_as<Address, gmem>;
    ptx(global ? "st.global.u8 [{a:gmem}], {s:u16};" : "st.shared.u8 [{a:smem}], {s:u16};",
        {{"a", to}, {"s", u16(*from)}});
  } else if (bytes == 2) {
    store(Pointer<u16, Address>(to), std::array{u16(*from)});
  } else {
    Pointer<u32, Address> words(to);
    if (bytes == 4) store(words, std::array{from[0]});
    if (bytes == 8) store(words, std::array{from[0], from[1]});
    if (bytes == 16) store(words, std::array{from[0], from[1], from[2], from[3]});
  }
}

}  // namespace

void detail::record_access(ThreadCopyRecord r, const SharedPlace& place, const ThreadAccess& access,
                           int first, int count, const std::function<ElementRecord(int, int, int)>& element) {
  r.view = *place.view;
  r.transposed = place.transposed;
  r.threads = access.threads();
  r.exchange = access.exchange();
  std::vector<ThreadAddresses<int64_t, int64_t>> of_threads;
  for (int64_t thread = 0; thread < r.threads; ++thread) of_threads.emplace_back(0, access, thread);
  for (int i = first; i < first + count; ++i)
    for (int thread = 0; thread < r.threads; ++thread) {
      r.addresses.push_back(static_cast<int>(of_threads[static_cast<size_t>(thread)][i]));
      const int made = access.exchange() ? access.exchange()->made(thread, i) : i;
      for (int value = 0; value < r.values(); ++value) {
        const ElementRecord e = element(thread, made, value);
        r.elements.push_back(place.transposed ? ElementRecord{e.col, e.row} : e);
      }
    }
  TileContext& context = TileContext::of(Builder::current(r.where));
  if (context.apart)
    *context.apart = std::move(r);
  else
    context.record.thread_copies.push_back(std::move(r));
}

std::vector<u32> load(const TiledCopy& copy, const SharedPlace& from, u32 thread, Where where) {
  AtLine line(where);
  return load(copy, from, thread, 0, copy.accesses());
}

std::vector<u32> load(const TiledCopy& copy, const SharedPlace& from, u32 thread, int first, int count,
                      Where where) {
  AtLine line(where);
  check_kind(copy, {Kind::ldmatrix, Kind::vector}, "load from shared memory");
  check_accesses(copy, first, count, "load");
  record(ThreadCopyRecord::Kind::to_registers, "load", copy, from, first, count);
  SharedAddresses address(from.address, copy.access(), thread);
  std::vector<u32> registers;
  for (int access = first; access < first + count; ++access) {
    if (!copy.atom().is_matrix()) {
      load_vector(address[access], copy.atom().bytes(), registers);
      continue;
    }
    std::vector<Argument> arguments = {address[access]};
    const isa::Row& row = isa::ldmatrix({copy.atom().matrices(), copy.atom().transposed()});
    for (Value v : Builder::current().emit(row, arguments, std::nullopt)) registers.emplace_back(v.handle());
  }
  if (from.view) remember(registers);
  return registers;
}

void store(const TiledCopy& copy, const SharedPlace& to, u32 thread, const std::vector<u32>& registers,
           Where where) {
  AtLine line(where);
  store(copy, to, thread, registers, 0, copy.accesses());
}

void store(const TiledCopy& copy, const SharedPlace& to, u32 thread, const std::vector<u32>& registers,
           int first, int count, Where where) {
  AtLine line(where);
  check_kind(copy, {Kind::stmatrix, Kind::vector}, "store to shared memory");
  tell(to, "store", false);
  check_accesses(copy, first, count, "store");
  const int each = registers_of(copy, 1);
  if (static_cast<int>(registers.size()) != registers_of(copy, count))
    throw Error(fmt::format("store: {} registers were given, but {} accesses of {} need {}", registers.size(),
                            count, copy.atom().describe(), registers_of(copy, count)));
  record(ThreadCopyRecord::Kind::from_registers, "store", copy, to, first, count);
  SharedAddresses address(to.address, copy.access(), thread);
  for (int access = first; access < first + count; ++access) {
    const u32* from = &registers[static_cast<size_t>((access - first) * each)];
    if (!copy.atom().is_matrix()) {
      store_vector(address[access], copy.atom().bytes(), from);
      continue;
    }
    std::vector<Argument> arguments = {address[access], std::vector<Value>(from, from + each)};
    const isa::Row& row = isa::stmatrix({copy.atom().matrices(), copy.atom().transposed()});
    Builder::current().emit(row, arguments, std::nullopt);
  }
}

std::vector<u32> load(const TiledCopy& copy, const GlobalTile& from, u32 thread, Where where) {
  AtLine line(where);
  check_kind(copy, {Kind::vector}, "load from global memory");
  GlobalAddresses place(copy, from, thread);
  std::vector<u32> registers;
  for (int access = 0; access < copy.accesses(); ++access) {
    auto [address, inside] = place(access);
    if (!inside) {
      load_vector(address, copy.atom().bytes(), registers);
      continue;
    }
    std::vector<Var<u32>> loaded;
    for (int i = 0; i < registers_of(copy, 1); ++i) loaded.emplace_back(0);
    if_(*inside, [&, address = address] {
      std::vector<u32> values;
      load_vector(address, copy.atom().bytes(), values);
      for (size_t i = 0; i < values.size(); ++i) loaded[i] = values[i];
    });
    for (const Var<u32>& v : loaded) registers.push_back(v);
  }
  return registers;
}

void store(const TiledCopy& copy, const GlobalTile& to, u32 thread, const std::vector<u32>& registers,
           Where where) {
  AtLine line(where);
  check_kind(copy, {Kind::vector}, "store to global memory");
  if (static_cast<int>(registers.size()) != registers_of(copy, copy.accesses()))
    throw Error(fmt::format("store: {} registers were given, but {} needs {}", registers.size(),
                            copy.describe(), registers_of(copy, copy.accesses())));
  GlobalAddresses place(copy, to, thread);
  for (int access = 0; access < copy.accesses(); ++access) {
    auto [address, inside] = place(access);
    const u32* from = &registers[static_cast<size_t>(registers_of(copy, 1) * access)];
    auto write = [&, address = address] { store_vector(address, copy.atom().bytes(), from); };
    if (inside)
      if_(*inside, write);
    else
      write();
  }
}

void load_async(const TiledCopy& copy, const SharedPlace& to, const GlobalTile& from, u32 thread,
                Where where) {
  AtLine line(where);
  check_kind(copy, {Kind::cp_async}, "load_async");
  tell(to, "load_async", true);
  record(ThreadCopyRecord::Kind::from_global, "load_async", copy, to, 0, copy.accesses());
  SharedAddresses address(to.address, copy.access(), thread);
  GlobalAddresses place(copy, from, thread);
  const int bytes = copy.atom().bytes();
  for (int access = 0; access < copy.accesses(); ++access) {
    auto [source, inside] = place(access);
    std::vector<Argument> arguments = {address[access], source};
    if (inside) arguments.emplace_back(select(*inside, u32(bytes), 0));
    Builder::current().emit(isa::cp_async({bytes, inside.has_value()}), arguments, std::nullopt);
  }
}

GatheredRows::GatheredRows(const TiledCopy& copy, gmem start, u32 rows, u32 cols, u32 stride, u32 thread,
                           Where where)
    : copy_(copy), start_(start), rows_(rows), cols_(cols), stride_(stride), thread_(thread) {
  AtLine line(where);
  check_kind(copy, {Kind::cp_async}, "gathered rows");
  for (int access = 0; access < copy.accesses(); ++access) of_access_.emplace_back(u32(kNoRow));
}

void GatheredRows::point(gptr<s32> index, u32 first, u32 end, Where where) {
  const u32 last = max(end, u32(1)) - 1;
  point(
      [&](u32 row) {
        const u32 at = first + row;
        return select(at < end, u32(s32(index[min(at, last)])), u32(kNoRow));
      },
      where);
}

void GatheredRows::point(const std::function<u32(u32)>& number, Where where) {
  AtLine line(where);
  const Index thread(thread_);
  const DeviceLayout coordinates = to_device(copy_.coordinates());
  for (int access = 0; access < copy_.accesses(); ++access)
    of_access_[static_cast<size_t>(access)] =
        number(coordinates_of(coordinates, thread, access).first.value());
}

void load_async(const SharedPlace& to, const GatheredRows& from, u32 col, Where where) {
  AtLine line(where);
  const TiledCopy& copy = from.copy_;
  tell(to, "load_async", true);
  record(ThreadCopyRecord::Kind::from_global, "load_async of gathered rows", copy, to, 0, copy.accesses());
  SharedAddresses address(to.address, copy.access(), from.thread_);
  const Index thread(from.thread_);
  const DeviceLayout coordinates = to_device(copy.coordinates());
  const int bytes = copy.atom().bytes(), element = size_of(copy.dtype());
  for (int access = 0; access < copy.accesses(); ++access) {
    const u32 row = from.of_access_[static_cast<size_t>(access)];
    const u32 at = col + coordinates_of(coordinates, thread, access).second.value();
    const s32 left = (s32(from.cols_) - s32(at)) * element;
    const u32 inside = u32(min(max(left, s32(0)), s32(bytes)));
    const gmem source =
        from.start_ + (u64(row) * u64(from.stride_) + u64(at)) * static_cast<uint64_t>(element);
    Builder::current().emit(
        isa::cp_async({bytes, true}),
        std::vector<Argument>{address[access], source, select(row < from.rows_, inside, u32(0))},
        std::nullopt);
  }
}

}  // namespace ptxbuilder
