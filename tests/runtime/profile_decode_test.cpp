// Tests the reader of profiles on memory with known times, and the form that Perfetto reads.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <map>

#include "error_kit.h"
#include "runtime/perfetto.h"
#include "runtime/profile.h"

namespace ptxbuilder::test::profile_decode_test {
namespace {

using namespace profile_format;
using runtime::Profile;

using Kind = ProfileFormat::Kind;

constexpr uint32_t kRecords = 40, kEach = warp_records(kRecords);
constexpr double kPeriod = 0.5;         // nanoseconds per clock
constexpr uint64_t kTick = 1000;        // nanoseconds per tick of the shared time
constexpr uint64_t kStart = 7'000'123;  // start of the kernel, in shared time

constexpr uint32_t kRole = 0, kWait = 1, kInner = 2, kValue = 3;

// The numbers of a kernel's sites. Records with one to three times must yield the same regions.
enum Site : uint32_t {
  role_begins = 1,
  wait_begins,
  inner,
  inner_and_mark,
  inner_ends,
  both_end,
  span_begins,
  span_ends,
  three_times,
  wait
};

Signature signature() {
  Signature s;
  s.kernel = "known";
  s.threads = 64;
  s.profile = ProfileFormat{
      kRecords,
      {"role", "wait", "inner", "value"},
      {{"role", 0, 1}},
      {{{Kind::begin, kRole, 0}},
       {{Kind::begin, kWait, 0}},
       {{Kind::begin, kInner, 0}, {Kind::end, kInner, 1}},
       {{Kind::begin, kInner, 0}, {Kind::mark_f32, kValue, 1, 2}},
       {{Kind::end, kInner, 0}},
       {{Kind::end, kWait, 0}, {Kind::end, kRole, 1}},
       {{Kind::span_begin, kValue, 0, 1}},
       {{Kind::span_end, kValue, 0, 1}},
       // The second region begins at the time when the first ends.
       {{Kind::begin, kInner, 0}, {Kind::end, kInner, 1}, {Kind::begin, kInner, 1}, {Kind::end, kInner, 2}},
       {{Kind::begin, kWait, 0}, {Kind::end, kWait, 1}}}};
  return s;
}

// Memory that two CTAs of two warps have written. The clocks of their multiprocessors began at different
// times.
class Memory {
 public:
  explicit Memory(size_t warps) : bytes_((kCalibrationRecords + warps * kEach) * kRecordBytes) {
    // Reading a clock takes 4 clocks, and writing a record takes 6.
    for (uint32_t i = 0; i < kCalibrationRecords; ++i) put(i, Record{0, {i * 18, i * 18 + 4, i * 18 + 8}});
  }

  // `begin` and `end` are nanoseconds from the kernel's start.
  void warp(size_t i, uint32_t sm, uint64_t begin, uint64_t end) {
    put(kCalibrationRecords + i * kEach,
        Header{1, sm, 0, 0, clock(sm, begin), shared(begin), clock(sm, end), shared(end)});
  }
  // Adds a record with times and, if there is one, a value in the word after them.
  void record(size_t warp, Site site, uint32_t sm, const std::vector<uint64_t>& times,
              std::optional<uint32_t> value = {}) {
    auto header = get<Header>(kCalibrationRecords + warp * kEach);
    Record r{site, {}};
    for (size_t i = 0; i < times.size(); ++i) r.words[i] = static_cast<uint32_t>(clock(sm, times[i]));
    if (value) r.words[times.size()] = *value;
    put(kCalibrationRecords + warp * kEach + kHeaderRecords + header.records, r);
    ++header.records;
    put(kCalibrationRecords + warp * kEach, header);
  }
  std::vector<std::byte>& bytes() { return bytes_; }

  template <class T>
  void put(size_t record, const T& value) {
    std::memcpy(bytes_.data() + record * kRecordBytes, &value, sizeof value);
  }
  template <class T>
  T get(size_t record) const {
    T value;
    std::memcpy(&value, bytes_.data() + record * kRecordBytes, sizeof value);
    return value;
  }

 private:
  // The low 32 bits overflow soon after the kernel's start.
  static uint64_t clock(uint32_t sm, uint64_t time) {
    return sm * 1'431'655'000ull + static_cast<uint64_t>(static_cast<double>(time) / kPeriod);
  }
  static uint64_t shared(uint64_t time) { return (kStart + time) / kTick * kTick; }

  std::vector<std::byte> bytes_;
};

// Returns memory of two multiprocessors. The second begins 300 us later, and all four warps end after at
// least 4 ms.
Memory known() {
  Memory m(4);
  const std::array<std::pair<uint64_t, uint64_t>, 4> spans = {
      {{0, 4'000'877}, {577, 4'000'900}, {300'300, 4'000'301}, {300'877, 5'000'000}}};
  for (size_t i = 0; i < 4; ++i) m.warp(i, i < 2 ? 3 : 90, spans[i].first, spans[i].second);
  for (const size_t warp : {0, 2}) {
    const uint32_t sm = warp ? 90 : 3;
    m.record(warp, role_begins, sm, {401'000});
    m.record(warp, wait_begins, sm, {402'000});
    m.record(warp, inner_and_mark, sm, {402'100, 402'150}, 0x3fc00000);
    m.record(warp, inner_ends, sm, {402'400});
    m.record(warp, inner, sm, {402'500, 402'600});
    m.record(warp, both_end, sm, {403'000, 3'900'000});
  }
  m.record(3, wait_begins, 90, {405'000});
  return m;
}

bool about(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance; }

// A message of protocol buffers: its numbers and texts by field, in order.
struct Decoded {
  std::multimap<uint32_t, uint64_t> numbers;
  std::multimap<uint32_t, std::string> texts;

  explicit Decoded(const std::string& bytes) {
    for (size_t at = 0; at < bytes.size();) {
      const uint64_t key = varint(bytes, at);
      const auto field = static_cast<uint32_t>(key >> 3);
      if ((key & 7) == 0) {
        numbers.emplace(field, varint(bytes, at));
      } else if ((key & 7) == 1) {
        uint64_t bits;
        std::memcpy(&bits, bytes.data() + at, 8);
        numbers.emplace(field, bits);
        at += 8;
      } else {
        REQUIRE((key & 7) == 2);
        const uint64_t size = varint(bytes, at);
        REQUIRE(at + size <= bytes.size());
        texts.emplace(field, bytes.substr(at, size));
        at += size;
      }
    }
  }
  uint64_t number(uint32_t field) const {
    REQUIRE(numbers.count(field) == 1);
    return numbers.find(field)->second;
  }
  Decoded message(uint32_t field) const {
    REQUIRE(texts.count(field) == 1);
    return Decoded(texts.find(field)->second);
  }
  std::string text(uint32_t field) const {
    REQUIRE(texts.count(field) == 1);
    return texts.find(field)->second;
  }

 private:
  static uint64_t varint(const std::string& bytes, size_t& at) {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      REQUIRE(at < bytes.size());
      const auto byte = static_cast<unsigned char>(bytes[at++]);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  }
};

}  // namespace

TEST_CASE(
    "clocks of multiprocessors are aligned by the time that they share, and the cost of events is known") {
  Memory m = known();
  const Profile p = runtime::decode_profile(signature(), m.bytes());
  REQUIRE(p.tracks.size() == 4);
  CHECK(about(p.clock_period, kPeriod, 0.001 * kPeriod));
  CHECK(about(p.event_cost, 6 * kPeriod, 0.02));
  CHECK(about(p.time, 5e6, 4000));
  CHECK(p.tracks[0].role == 0);
  CHECK(p.tracks[1].role == -1);
  CHECK(p.tracks[2].cta == 1);
  CHECK(p.tracks[2].sm == 90);
  // The regions begin at the same time on both multiprocessors, up to one tick of the shared time and the
  // error of the rate.
  for (size_t r = 0; r < 4; ++r)
    CHECK(about(p.tracks[0].regions[r].begin, p.tracks[2].regions[r].begin, static_cast<double>(kTick)));
  for (const size_t track : {0, 2}) {
    const auto& regions = p.tracks[track].regions;
    REQUIRE(regions.size() == 4);
    CHECK(regions[2].depth == 2);
    CHECK(about(regions[2].end - regions[2].begin, 300, 1));
    CHECK(
        about(regions[2].net, 300 - kPeriod * (2 * 4 + 6), 1));  // the region includes the record of the mark
    CHECK(about(regions[3].net, 100 - kPeriod * 4, 1));
    CHECK(about(regions[1].net, 1000 - kPeriod * (6 * 4 + 4 * 6),
                2));  // the outer region includes all records of the two inner regions
    CHECK(p.tracks[track].marks.at(0).value == 1.5);
  }
  CHECK_FALSE(p.tracks[3].regions.at(0).ended);
  CHECK(p.tracks[3].regions[0].end == p.tracks[3].end);
  const std::vector<Profile::Row> rows = p.rows();
  REQUIRE(rows.size() == 5);
  CHECK(rows[0].role == "all warps");
  CHECK(rows[1].region == "wait");
  CHECK(rows[2].role == "role");
  CHECK(rows[2].region.empty());
  CHECK(rows[2].share == 1);
  CHECK(rows[3].region == "wait");
  CHECK(rows[3].count == 2);
  CHECK(rows[4].region == "wait/inner");
  CHECK(rows[4].count == 4);
  CHECK(about(rows[4].p50, 98, 1));
  CHECK(about(rows[4].p95, 293, 1));
  const std::string rest = fmt::format("{:20} {:30.1f}%", "  (in no region)", 47.2);
  CHECK_MESSAGE(p.summary().find(rest) != std::string::npos, p.summary());
}

TEST_CASE(
    "spans end in other warps than they began in, and those that are open at once lie on several tracks") {
  Memory m = known();
  const auto span = [&](size_t warp, Site site, uint64_t time, uint32_t number) {
    m.record(warp, site, warp < 2 ? 3 : 90, {time}, number);
  };
  span(1, span_begins, 500'000, 7);
  span(1, span_begins, 500'100, 8);
  span(0, span_ends, 3'950'000, 7);  // written by the first warp, which records in order
  span(1, span_ends, 500'400, 8);
  span(1, span_ends, 500'500, 8);  // an end that was already recorded
  span(2, span_begins, 3'950'000, 7);
  const Profile p = runtime::decode_profile(signature(), m.bytes());
  REQUIRE(p.spans.size() == 3);
  CHECK(p.spans[0].number == 7);
  CHECK(p.spans[0].cta == 0);
  CHECK(about(p.spans[0].end - p.spans[0].begin, 3'450'000, 500));
  CHECK(p.spans[0].ended);
  CHECK(about(p.spans[1].end - p.spans[1].begin, 300, 1));
  CHECK(p.spans[2].cta == 1);
  CHECK_FALSE(p.spans[2].ended);
  CHECK(p.spans[2].end == p.tracks[3].end);
  const std::vector<Profile::Row> rows = p.rows();
  const Profile::Row& row = rows.back();
  CHECK(row.role == Profile::kSpans);
  CHECK(row.region == "value");
  CHECK(row.count == 3);
  CHECK(about(row.share, (3'450'300 + 1'050'000) / (4'000'900 + 4'699'700.0), 0.01));
  const std::string trace = runtime::perfetto_trace(p);
  for (const char* track : {"CTA 0, value 1", "CTA 0, value 2", "CTA 1, value 1"})
    CHECK(trace.find(track) != std::string::npos);
  CHECK(trace.find("CTA 1, value 2") == std::string::npos);
}

TEST_CASE("a wait has its own record, which may be written before that of the region around it") {
  Memory m(4);
  for (size_t i = 0; i < 4; ++i) m.warp(i, i < 2 ? 3 : 90, 0, 5'000'000);
  m.record(0, role_begins, 3, {401'000});
  m.record(0, wait, 3, {500'000, 500'300});
  m.record(0, wait, 3, {3'500'000, 3'500'100});
  m.record(0, inner, 3,
           {402'000, 3'600'000});  // this begins more than a millisecond before the preceding records
  m.record(0, inner, 3, {3'700'000, 3'700'100});
  const Profile p = runtime::decode_profile(signature(), m.bytes());
  const auto& regions = p.tracks.at(0).regions;
  REQUIRE(regions.size() == 5);
  CHECK(p.names[regions[1].name] == "inner");
  CHECK(regions[1].depth == 1);
  CHECK(about(regions[1].end - regions[1].begin, 3'198'000, 500));
  for (const size_t i : {2, 3}) {
    CHECK(p.names[regions[i].name] == "wait");
    CHECK(regions[i].depth == 2);
    CHECK(regions[i].ended);
    CHECK(about(regions[i].end - regions[i].begin, i == 2 ? 300 : 100, 1));
  }
  CHECK(regions[4].depth == 1);
  CHECK(about(regions[4].begin - regions[1].end, 100'000, 100));
}

TEST_CASE("regions right after one another share a time, and a record that is lost is counted") {
  Memory m(1);
  m.warp(0, 3, 0, 900'000);
  for (uint32_t i = 0; i < kRecords; ++i) {
    const uint64_t at = 1000 * (i + 1);
    m.record(0, three_times, 3, {at, at + 100, at + 300});
  }
  auto header = m.get<Header>(kCalibrationRecords);
  header.records += 2;
  m.put(kCalibrationRecords, header);
  const Profile p = runtime::decode_profile(signature(), m.bytes());
  REQUIRE(p.tracks.size() == 1);
  const Profile::Track& track = p.tracks[0];
  CHECK(track.lost == 2);
  CHECK(p.wanted == 2 * (kRecords + 2));
  CHECK(track.recorded == 4 * kRecords);
  CHECK(about(track.recording, kPeriod * kRecords * (3 * 4 + 6), 1));
  REQUIRE(track.regions.size() == 2 * kRecords);
  for (uint32_t i = 0; i < 2 * kRecords; i += 2) {
    const auto &first = track.regions[i], &second = track.regions[i + 1];
    CHECK(first.depth == 0);
    CHECK(first.end == second.begin);
    CHECK(about(first.net, 100 - kPeriod * 4, 1));
    CHECK(about(second.net, 200 - kPeriod * 4, 1));
  }
}

TEST_CASE("memory that is no profile is refused, and a warp that did not end is left out") {
  Memory m = known();
  auto header = m.get<Header>(kCalibrationRecords + kEach);
  header.last_clock = 0;
  m.put(kCalibrationRecords + kEach, header);
  const Profile p = runtime::decode_profile(signature(), m.bytes());
  CHECK(p.tracks.size() == 3);
  CHECK(p.unfinished == 1);
  CHECK(p.summary().find("1 warps did not reach their end") != std::string::npos);
  const auto refused = [&] { return error_of([&] { runtime::decode_profile(signature(), m.bytes()); }); };
  const auto record = m.get<Record>(kCalibrationRecords + kHeaderRecords);
  for (const uint32_t site : {0, 11}) {
    m.put(kCalibrationRecords + kHeaderRecords, Record{site, {}});
    CHECK(refused().find(fmt::format("record 0 of warp 0 is of site {}, but there are 10", site)) !=
          std::string::npos);
  }
  m.put(kCalibrationRecords + kHeaderRecords, record);
  header.started = 9;
  m.put(kCalibrationRecords + kEach, header);
  CHECK(refused().find("warp 1 has started 9 times") != std::string::npos);
  m.bytes().resize(100);
  CHECK(refused().find("the memory has 100 B") != std::string::npos);
}

TEST_CASE("Perfetto's form: processes, tracks, names, slices in order, and marks with values") {
  Memory m = known();
  const Profile p = runtime::decode_profile(signature(), m.bytes());
  const Decoded trace(runtime::perfetto_trace(p));
  std::map<uint64_t, std::string> names, tracks;
  std::map<uint64_t, uint64_t> parents;
  std::vector<std::string> events;
  uint64_t last = 0;
  for (const auto& [field, bytes] : trace.texts) {
    CHECK(field == 1);
    const Decoded packet(bytes);
    CHECK(packet.number(10) == 1);
    if (packet.texts.count(12)) {
      CHECK(packet.number(13) == 1);
      for (const auto& [f, name] : packet.message(12).texts)
        names[Decoded(name).number(1)] = Decoded(name).text(2);
    } else if (packet.texts.count(60)) {
      const Decoded d = packet.message(60);
      if (d.texts.count(3))
        tracks[d.number(1)] = d.message(3).text(6);
      else
        tracks[d.number(1)] = d.text(2), parents[d.number(1)] = d.number(5);
      last = 0;
    } else {
      const Decoded e = packet.message(11);
      CHECK(packet.number(13) == 2);
      std::string text = fmt::format("{} {}", tracks.at(e.number(11)), e.number(9));
      if (e.numbers.count(10)) text += " " + names.at(e.number(10));
      if (e.numbers.count(10) && e.number(9) == 3) {
        const uint64_t bits = e.message(4).number(5);
        double value;
        std::memcpy(&value, &bits, 8);
        text += fmt::format(" {} {}", e.message(4).text(10), value);
      } else {
        CHECK(packet.number(8) >= last);
        last = packet.number(8);
      }
      events.push_back(text);
    }
  }
  const std::string track = "CTA 0 warp 0, role";
  const std::vector<std::string> first = {
      track + " 1 role", track + " 1 wait",  track + " 1 inner",
      track + " 2",      track + " 1 inner", track + " 2",
      track + " 2",      track + " 2",       track + " 3 value value 1.5"};
  REQUIRE(events.size() == 20);
  CHECK(std::vector<std::string>(events.begin(), events.begin() + 9) == first);
  CHECK(events[18] == "CTA 1 warp 1 1 wait");
  CHECK(tracks.size() == 6);
  CHECK(parents.size() == 4);
  CHECK(tracks.at(parents.begin()->second) == "multiprocessor 3");
}

}  // namespace ptxbuilder::test::profile_decode_test
