// Tests device code in fatbins and in host files: every kind of packing, and broken files.
//
// tests/compile/device_code holds the output of nvcc 13.0.88 for two kernels, `twice` and `add`, as PTX for
// sm_90a and sm_80, with -fatbin --compress-mode=none, speed (LZ4) and size (zstd, with a cubin as well).
#include "ptxbuilder/compile/device_code.h"

#include <doctest/doctest.h>
#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "error_kit.h"
#include "ptxbuilder/compile/lz4.h"

namespace ptxbuilder::test::device_code_test {
namespace {

std::string fatbin(const std::string& mode) {
  std::ifstream file(PTXBUILDER_TEST_DIR "/compile/device_code/" + mode + ".fatbin", std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  REQUIRE(bytes.size() > 500);
  return bytes;
}

template <class T>
void put(std::string& file, size_t offset, T value) {
  REQUIRE(offset + sizeof value <= file.size());
  std::memcpy(file.data() + offset, &value, sizeof value);
}

// Returns a host ELF file with one section of content, in addition to the section of names.
std::string elf_with(const std::string& name, const std::string& content) {
  const std::string names = '\0' + name + '\0';
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = EM_X86_64;
  header.e_shoff = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 1;
  Elf64_Shdr sections[3] = {};
  sections[1].sh_type = SHT_STRTAB;
  sections[1].sh_offset = sizeof header + sizeof sections;
  sections[1].sh_size = names.size();
  sections[2].sh_name = 1;
  sections[2].sh_type = SHT_PROGBITS;
  sections[2].sh_offset = sections[1].sh_offset + names.size();
  sections[2].sh_size = content.size();
  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  file.append(reinterpret_cast<const char*>(sections), sizeof sections);
  return file + names + content;
}

std::string refusal(const std::string& file) {
  return error_of([&] {
    for (const DeviceCode& code : device_code(file)) (void)code.code();
  });
}

}  // namespace

TEST_CASE("LZ4 and zstd unpack to the original") {
  const std::string files[] = {fatbin("none"), fatbin("speed"),
                               fatbin("size")};  // the code refers to these strings
  const std::vector<DeviceCode> plain = device_code(files[0]);
  REQUIRE(plain.size() == 2);
  CHECK(plain[0].architecture == 90);
  CHECK(plain[1].architecture == 80);
  CHECK(plain[0].code().find(".target sm_90a\n") != std::string::npos);
  CHECK(plain[0].code().ends_with("}\n\n"));
  const std::vector<DeviceCode> lz4 = device_code(files[1]), zstd = device_code(files[2]);
  REQUIRE(lz4.size() == 2);
  REQUIRE(zstd.size() == 3);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(lz4[i].code() == plain[i].code());
    CHECK(zstd[i + 1].code() == plain[i].code());
  }
  CHECK(zstd[0].kind == DeviceCode::Kind::cubin);
  CHECK(zstd[0].code().starts_with(ELFMAG));
  CHECK(zstd[0].kernels() == std::vector<std::string>{"add", "twice"});
  CHECK(plain[0].kernels() == std::vector<std::string>{"twice", "add"});
  const std::string file = zstd[0].code();  // a separate copy of the file
  const std::vector<DeviceCode> cubin = device_code(file);
  REQUIRE(cubin.size() == 1);
  CHECK(cubin[0].kind == DeviceCode::Kind::cubin);
  CHECK(cubin[0].architecture == 90);
}

TEST_CASE("programs hold fatbins in a section, one after the other") {
  const std::string two = fatbin("none") + std::string(16, '\0') + fatbin("speed") + std::string(8, '\0');
  for (const char* section : {".nv_fatbin", "__nv_relfatbin"})
    CHECK(device_code(elf_with(section, two)).size() == 4);
  CHECK(device_code(elf_with(".rodata", two)).empty());
  CHECK(device_code("  .version 8.0").size() == 1);
}

TEST_CASE("a kernel is chosen by its name, of the highest architecture") {
  const std::string file = fatbin("size");
  const std::vector<DeviceCode> all = device_code(file);
  CHECK(&choose_code(all, "add") == &all[1]);  // PTX has precedence over cubins
  CHECK(&choose_code(all, "add", DeviceCode::Kind::cubin) == &all[0]);
  const std::vector<DeviceCode> turned = {all[2], all[1]};
  CHECK(&choose_code(turned, "twice") == &turned[1]);
  CHECK(error_of([&] { choose_code(all, ""); }) == "it holds 2 kernels; choose one by name: add, twice");
  CHECK(error_of([&] { choose_code(all, "thrice"); }) == "it holds no kernel 'thrice', but add, twice");
  CHECK(error_of([&] { choose_code({all[0]}, "", DeviceCode::Kind::ptx); }) == "it holds no PTX");
  CHECK(error_of([&] { choose_code({}, ""); }) == "it holds no device code");
  DeviceCode one, other;
  one.content = other.content = ".entry one() {}";
  one.architecture = 90, other.architecture = 80;
  const std::vector<DeviceCode> two = {other, one};
  CHECK(choose_code(two, "").architecture == 90);
  DeviceCode only_cubin = all[0];  // a kernel that is only in a cubin is found there
  const std::vector<DeviceCode> mixed = {other, one, only_cubin};
  CHECK(&choose_code(mixed, "add") == &mixed[2]);
}

TEST_CASE("a broken file is refused with the offset and the rule") {
  const std::string good = fatbin("none");
  CHECK(refusal(good.substr(0, 12))
            .starts_with("offset 0x0: a fatbin's header of 16 B ends beyond the file's 0xc B"));
  CHECK(refusal(good.substr(0, 1000)) == "offset 0x0: a fatbin of 1888 B ends beyond 0x3e8");
  std::string file = good;
  put<uint16_t>(file, 4, 7);
  CHECK(refusal(file) == "offset 0x0: the fatbin has version 7, but only version 1 is supported");
  file = good;
  put<uint64_t>(file, 16 + 8, ~uint64_t{0});
  CHECK(refusal(file).starts_with("offset 0x10: an entry of 18446744073709551615 B extends beyond"));
  file = good;
  put<uint32_t>(file, 16 + 4, 8);
  CHECK(refusal(file).starts_with("offset 0x10: the header of an entry has 8 B, but must have at least 64"));
  CHECK(refusal(good + "more") == "offset 0x770: a fatbin's header of 16 B ends beyond the file's 0x774 B");
  CHECK(refusal(good + std::string(32, 'x')) == "offset 0x770: 0x78787878 is not a fatbin's magic number");

  file = fatbin("speed");
  put<uint64_t>(file, 16 + 56, uint64_t{1} << 40);
  CHECK(
      refusal(file) ==
      "offset 0x10: an entry cannot be unpacked: it has 1099511627776 B, but at most 268435456 are allowed");
  put<uint64_t>(file, 16 + 56, 861);
  CHECK(refusal(file).starts_with("offset 0x10: an entry cannot be unpacked: LZ4 block, byte "));
  put<uint64_t>(file, 16 + 56, 863);
  CHECK(refusal(file) ==
        "offset 0x10: an entry cannot be unpacked: LZ4 block, byte 446: it ends after 862 B of 863");
  put<uint32_t>(file, 16 + 16, 449);
  CHECK(refusal(file) == "offset 0x10: the packed data has 449 B, but the entry has 448");
  file = fatbin("size");
  put<uint64_t>(file, 16 + 56, 5199);
  CHECK(refusal(file).starts_with("offset 0x10: an entry cannot be unpacked: zstd: "));

  const std::string program = elf_with(".nv_fatbin", good);
  CHECK(refusal(program.substr(0, 40)) == "offset 0x0: the ELF header of 64 B ends beyond the file's 0x28 B");
  CHECK(refusal(program.substr(0, 600)).starts_with("offset 0x10c: a section of 1904 B ends beyond"));
  file = program;
  put<uint64_t>(file, offsetof(Elf64_Ehdr, e_shoff), ~uint64_t{0});
  CHECK(refusal(file).find("the table of sections") != std::string::npos);
  file = program;
  CHECK(refusal("!<arch>\n").starts_with("it is an archive"));
  file[EI_CLASS] = ELFCLASS32;
  CHECK(refusal(file) == "offset 0x4: an ELF file must be 64-bit and little-endian to hold device code");
}

TEST_CASE("LZ4: literals, overlapping matches, long lengths, and invalid blocks") {
  CHECK(unpack_lz4({"\x30"
                    "abc",
                    4},
                   3) == "abc");
  CHECK(unpack_lz4({"\x14"
                    "a\x01\x00\x00",
                    5},
                   9) == "aaaaaaaaa");
  CHECK(unpack_lz4({"\x1f"
                    "a\x01\x00\xff\x01\x00",
                    7},
                   1 + 19 + 256) == std::string(276, 'a'));
  auto broken = [](std::string_view block, size_t size) {
    return error_of([&] { unpack_lz4(block, size); });
  };
  CHECK(broken({"\x10", 1}, 1) == "LZ4 block, byte 1: 1 literals, but 0 B left");
  CHECK(broken({"\x14"
                "a\x02\x00\x00",
                5},
               9) == "LZ4 block, byte 4: a match 2 B back, after 1 B");
  CHECK(broken({"\x14"
                "a\x01\x00\x00",
                5},
               8) == "LZ4 block, byte 4: the data is 1 B longer than the 8 B to which it should unpack");
  CHECK(broken({"\x14"
                "a\x01",
                3},
               8) == "LZ4 block, byte 3: it ends within a sequence");
}

TEST_CASE("no file makes it crash: cut and changed files are read or refused") {
  std::vector<std::string> seeds = {fatbin("none"), fatbin("speed"), fatbin("size")};
  seeds.push_back(elf_with(".nv_fatbin", seeds[1]));
  seeds.push_back(device_code(seeds[2])[0].code());
  std::mt19937 random(7);
  size_t read = 0, refused = 0;
  for (int draw = 0; draw < 20000; ++draw) {
    std::string file = seeds[random() % seeds.size()];
    if (random() % 4 == 0) file.resize(random() % file.size());
    for (uint32_t changes = random() % 4; changes > 0 && !file.empty(); --changes) {
      const size_t at = random() % (random() % 2 ? std::min<size_t>(file.size(), 256) : file.size());
      file[at] = random() % 2 ? static_cast<char>(random()) : static_cast<char>(file[at] ^ 1 << random() % 8);
    }
    try {
      for (const DeviceCode& code : device_code(file)) (void)code.kernels();
      ++read;
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(read > 1000);
  CHECK(refused > 1000);
}

}  // namespace ptxbuilder::test::device_code_test
