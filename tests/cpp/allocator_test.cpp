// SPDX-License-Identifier: Apache-2.0
//
// What symmetric blocks need of the allocator; plain allocation is tested from Python against a
// model (tests/heap).
#include "heap/allocator.h"

#include "check.h"

namespace flightshmem {
namespace {

constexpr uint64_t kBegin = 1000;  // not aligned: the first block lies at 1024
constexpr uint64_t kEnd = 2000;    // nor this: the last ends at 1984

}  // namespace

FS_TEST(AllocatorAlignsItsEnds) {
  Allocator allocator(kBegin, kEnd);
  CHECK(allocator.stats().capacity_bytes == 960);
  CHECK(allocator.Allocate(1) == 1024);
  CHECK(allocator.Allocate(896) == 1088);
  CHECK(!allocator.Allocate(1));
}

FS_TEST(AllocatorOfNothingGivesNothing) {
  Allocator allocator(100, 120);
  CHECK(allocator.stats().capacity_bytes == 0);
  CHECK(!allocator.Allocate(0));
  CHECK(!allocator.HighestFit(0, 1 << 20));
}

FS_TEST(HighestFitGoesDownFromTheLimit) {
  Allocator allocator(kBegin, kEnd);
  CHECK(allocator.HighestFit(64, kEnd) == 1920);
  CHECK(allocator.HighestFit(64, 1919) == 1856);
  CHECK(allocator.HighestFit(64, 1100) == 1088);
  CHECK(!allocator.HighestFit(64, 1023));
  CHECK(allocator.HighestFit(960, kEnd) == 1024);
  CHECK(!allocator.HighestFit(961, kEnd));
}

FS_TEST(HighestFitSkipsWhatIsTooSmall) {
  Allocator allocator(kBegin, kEnd);
  CHECK(allocator.AllocateAt(1856, 64));          // free: 1024..1856 and 1920..1984
  CHECK(allocator.HighestFit(65, kEnd) == 1728);  // 128 bytes do not fit behind the block
  CHECK(allocator.HighestFit(64, kEnd) == 1920);
  CHECK(allocator.HighestFit(64, 1919) == 1792);  // below the limit: in front of the block
  CHECK(allocator.stats().blocks == 1);           // looking takes nothing
}

FS_TEST(AllocateAtTakesExactlyThePlace) {
  Allocator allocator(kBegin, kEnd);
  CHECK(allocator.AllocateAt(1280, 100));
  CHECK(!allocator.AllocateAt(1280, 1));
  CHECK(!allocator.AllocateAt(1344, 1));   // its second unit
  CHECK(!allocator.AllocateAt(1216, 65));  // reaches into it
  CHECK(!allocator.AllocateAt(1025, 1));   // not aligned
  CHECK(!allocator.AllocateAt(960, 64));   // outside
  CHECK(!allocator.AllocateAt(1984, 64));
  CHECK(allocator.AllocateAt(1408, 576));  // up to the end
  CHECK(allocator.stats().used_bytes == 128 + 576);
  allocator.Free(1280);
  allocator.Free(1408);
  CHECK(allocator.stats().largest_free_bytes == 960);
  allocator.Free(1408);  // not a block any more: ignored
  CHECK(allocator.stats().used_bytes == 0);
}

}  // namespace flightshmem
