// SPDX-License-Identifier: Apache-2.0
#include "catalog/catalog.h"

#include <arrow/array/builder_primitive.h>
#include <arrow/type.h>

#include <atomic>

#include "threads_as_pes.h"

namespace flightshmem {
namespace {

using testing::Reach;
using testing::RunOnPes;
using CatalogPtr = std::shared_ptr<Catalog>;

constexpr uint64_t kSegmentBytes = 32 << 20;

std::shared_ptr<arrow::RecordBatch> Numbers(int64_t value, int64_t rows) {
  arrow::Int64Builder builder;
  for (int64_t i = 0; i < rows; ++i) CHECK_OK(builder.Append(value));
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("v", arrow::int64())}), rows,
                                  {VALUE(builder.Finish())});
}

// One shard in this PE's heap.
EntryId PublishNumbers(const CatalogPtr& catalog, const std::string& name, PublishMode mode,
                       int64_t value, int64_t rows = 5) {
  const auto batch = Numbers(value, rows);
  const Shard shard = VALUE(WriteShard(*catalog->heap(), *batch));
  const auto size = static_cast<uint64_t>(shard.message->size());
  const EntryId id = VALUE(catalog->Publish(name, mode, *VALUE(TableHeader::FromBatch(*batch)),
                                            {{shard.where, size, shard.rows}}, ""));
  catalog->Own(id, shard.message);
  return id;
}

// The value all rows of a version have; -1 when they differ.
int64_t ValueOf(const CatalogPtr& catalog, const std::shared_ptr<const TableVersion>& version) {
  int64_t value = -2;
  for (size_t shard = 0; shard < version->shards().size(); ++shard) {
    const auto batch = VALUE(catalog->Read(version, shard));
    const auto& column = static_cast<const arrow::Int64Array&>(*batch->column(0));
    for (int64_t row = 0; row < column.length(); ++row) {
      if (value == -2) value = column.Value(row);
      if (column.Value(row) != value) return -1;
    }
  }
  return value;
}

void Barrier(const CatalogPtr& catalog) { CHECK_OK(catalog->heap()->transport()->Barrier()); }

int MyPe(const CatalogPtr& catalog) { return catalog->heap()->transport()->my_pe(); }

void RunWithCatalog(int n_pes, Reach reach, const std::function<void(const CatalogPtr&)>& body) {
  RunOnPes(n_pes, kSegmentBytes, reach, [&](const std::shared_ptr<SymmetricHeap>& heap) {
    const CatalogPtr catalog = VALUE(Catalog::Make(heap));
    body(catalog);
    Barrier(catalog);  // the others' pins are gone, too
    catalog->Reclaim();
  });
}

}  // namespace

// One PE replaces, one appends to another name, all read both, all the time.
FS_TEST(ReadersSeeWholeVersionsWhileWritersWork) {
  constexpr int64_t kVersions = 300;
  RunWithCatalog(3, Reach::kDirect, [](const CatalogPtr& catalog) {
    const int me = MyPe(catalog);
    if (me == 0) PublishNumbers(catalog, "replaced", PublishMode::kCreate, 1);
    if (me == 1) PublishNumbers(catalog, "appended", PublishMode::kCreate, 7);
    Barrier(catalog);
    uint64_t seen = 0;
    int64_t rows = 0;
    for (int64_t version = 2; seen < kVersions || rows < 5 * kVersions; ++version) {
      if (me == 0 && version <= kVersions) {
        PublishNumbers(catalog, "replaced", PublishMode::kReplace, version, version % 50);
      }
      if (me == 1 && version <= kVersions) {
        PublishNumbers(catalog, "appended", PublishMode::kAppend, 7);
      }
      const auto replaced = VALUE(catalog->Lookup("replaced"));
      CHECK(replaced->version() >= seen);
      seen = replaced->version();
      const int64_t value = ValueOf(catalog, replaced);
      CHECK(value == (seen % 50 == 0 ? -2 : static_cast<int64_t>(seen)));
      const auto appended = VALUE(catalog->Lookup("appended"));
      CHECK(appended->rows() >= rows && appended->rows() % 5 == 0);
      CHECK(appended->shards().size() <= Catalog::kMaxShards);
      rows = appended->rows();
      CHECK(ValueOf(catalog, appended) == 7);
    }
    Barrier(catalog);
    if (me == 2) {
      CHECK_OK(catalog->Drop("replaced"));
      CHECK_OK(catalog->Drop("appended"));
    }
  });
}

FS_TEST(WritersOfOneNameTakeTurns) {
  constexpr int64_t kEach = 60;
  RunWithCatalog(3, Reach::kDirect, [](const CatalogPtr& catalog) {
    for (int64_t i = 0; i < kEach; ++i) PublishNumbers(catalog, "t", PublishMode::kAppend, 1, 2);
    Barrier(catalog);
    const auto version = VALUE(catalog->Lookup("t"));
    CHECK(version->version() == 3 * kEach && version->rows() == 2 * 3 * kEach);
    Barrier(catalog);
    if (MyPe(catalog) == 0) CHECK_OK(catalog->Drop("t"));
  });
}

// Only one of the PEs that create a name at the same time succeeds.
FS_TEST(CreateIsDecidedOnce) {
  std::atomic<int> created = 0;
  RunWithCatalog(3, Reach::kDirect, [&created](const CatalogPtr& catalog) {
    const auto batch = Numbers(1, 1);
    const auto header = VALUE(TableHeader::FromBatch(*batch));
    for (int i = 0; i < 50; ++i) {
      const auto id =
          catalog->Publish("t" + std::to_string(i), PublishMode::kCreate, *header, {}, "");
      CHECK(id.ok() || id.status().IsAlreadyExists());
      if (id.ok()) ++created;
    }
    Barrier(catalog);
    CHECK(created == 50 && VALUE(catalog->Names()).size() == 50);
    Barrier(catalog);
    for (int i = MyPe(catalog); i < 50; i += 3) CHECK_OK(catalog->Drop("t" + std::to_string(i)));
  });
}

// As on other machines: everything goes through Put, Get and the transport's atomics.
FS_TEST(CatalogWorksWithoutPointers) {
  RunWithCatalog(3, Reach::kRemoteOnly, [](const CatalogPtr& catalog) {
    const int me = MyPe(catalog);
    const std::string mine = "table " + std::to_string(me);
    PublishNumbers(catalog, mine, PublishMode::kCreate, 10 + me);
    PublishNumbers(catalog, "common", PublishMode::kAppend, 5);
    Barrier(catalog);
    for (int pe = 0; pe < 3; ++pe) {
      const auto version = VALUE(catalog->Lookup("table " + std::to_string(pe)));
      CHECK(ValueOf(catalog, version) == 10 + pe);
    }
    CHECK(VALUE(catalog->Lookup("common"))->rows() == 15);
    CHECK(VALUE(catalog->Names()) ==
          (std::vector<std::string>{"common", "table 0", "table 1", "table 2"}));
    CHECK(catalog->Lookup("none").status().IsKeyError());
    Barrier(catalog);
    PublishNumbers(catalog, mine, PublishMode::kReplace, 20 + me);
    Barrier(catalog);
    const std::string next = "table " + std::to_string((me + 1) % 3);
    CHECK(ValueOf(catalog, VALUE(catalog->Lookup(next))) == 20 + (me + 1) % 3);
    Barrier(catalog);
    CHECK_OK(catalog->Drop(next));
    if (me == 0) CHECK_OK(catalog->Drop("common"));
  });
}

// A thread that is not the main one cannot reach other machines: it is told so, and the versions it
// lets go are unpinned by the main thread's next call.
FS_TEST(OtherThreadsDeferWhatOnlyTheMainThreadCanDo) {
  RunWithCatalog(2, Reach::kRemoteOnly, [](const CatalogPtr& catalog) {
    const int me = MyPe(catalog);
    std::string remote;  // a name at home on the other PE
    for (int i = 0; remote.empty(); ++i) {
      const std::string name = "n" + std::to_string(i);
      if (static_cast<int>((Directory::Hash(name) >> 32) % 2) != me) remote = name;
    }
    PublishNumbers(catalog, remote, PublishMode::kCreate, me);
    auto version = VALUE(catalog->Lookup(remote));
    std::thread([&] {
      const auto status = catalog->Lookup(remote).status();
      CHECK(status.IsNotImplemented() && status.message().find("another machine") < 200);
      version.reset();
    }).join();
    CHECK_OK(catalog->Drop(remote));
    CHECK(catalog->Lookup(remote).status().IsKeyError());
    catalog->Reclaim();
    CHECK(catalog->heap()->stats().blocks == 0);
  });
}

// Slots are given to other names again and again, and names are still found.
FS_TEST(NamesComeAndGo) {
  RunWithCatalog(1, Reach::kDirect, [](const CatalogPtr& catalog) {
    const auto header = VALUE(TableHeader::FromBatch(*Numbers(0, 0)));
    constexpr int kAlive = 100;
    for (int i = 0; i < 6000; ++i) {
      const std::string name = "name " + std::to_string(i);
      CHECK_OK(catalog->Publish(name, PublishMode::kCreate, *header, {}, name));
      if (i >= kAlive) CHECK_OK(catalog->Drop("name " + std::to_string(i - kAlive)));
      const std::string other = "name " + std::to_string(std::max(0, i - i % kAlive));
      CHECK(VALUE(catalog->Lookup(other))->partitioning() == other);
      CHECK(catalog->Lookup("name " + std::to_string(i + 1)).status().IsKeyError());
    }
    for (const std::string& name : VALUE(catalog->Names())) CHECK_OK(catalog->Drop(name));
  });
}

FS_TEST(FullDirectorySaysSo) {
  RunWithCatalog(1, Reach::kDirect, [](const CatalogPtr& catalog) {
    const auto header = VALUE(TableHeader::FromBatch(*Numbers(0, 0)));
    const auto publish = [&](uint64_t i) {
      return catalog->Publish("n" + std::to_string(i), PublishMode::kReplace, *header, {}, "")
          .status();
    };
    for (uint64_t i = 0; i < Directory::kSlots; ++i) CHECK_OK(publish(i));
    CHECK(publish(Directory::kSlots).IsCapacityError());
    CHECK_OK(publish(0));
    CHECK_OK(catalog->Drop("n17"));
    CHECK_OK(publish(Directory::kSlots));
    std::vector<std::shared_ptr<const TableVersion>> pins;  // of ever more versions of one name
    arrow::Status full;
    while (full.ok()) {
      pins.push_back(VALUE(catalog->Lookup("n0")));
      full = publish(0);
    }
    CHECK(full.IsCapacityError() && pins.size() == Directory::kEntries - Directory::kSlots + 1);
    pins.clear();
    CHECK_OK(publish(0));
    for (const std::string& name : VALUE(catalog->Names())) CHECK_OK(catalog->Drop(name));
  });
}

// A version made by appending holds the one before; all go when the last reader has gone.
FS_TEST(AppendedVersionsHoldTheirPredecessors) {
  RunWithCatalog(1, Reach::kDirect, [](const CatalogPtr& catalog) {
    for (int i = 0; i < 20; ++i) PublishNumbers(catalog, "t", PublishMode::kAppend, 3);
    auto version = VALUE(catalog->Lookup("t"));
    CHECK(version->shards().size() == 20);
    PublishNumbers(catalog, "t", PublishMode::kReplace, 4);
    const auto batch = VALUE(catalog->Read(version, 0));
    version.reset();
    catalog->Reclaim();
    CHECK(catalog->heap()->stats().blocks == 2 * 21);  // a shard and a descriptor each
    CHECK(static_cast<const arrow::Int64Array&>(*batch->column(0)).Value(4) == 3);
    CHECK_OK(catalog->Drop("t"));
    catalog->Reclaim();
    CHECK(catalog->heap()->stats().blocks == 2 * 20);
  });
}

// What a full heap can give up, it gives up before an allocation fails.
FS_TEST(FullHeapReclaimsWhatIsGone) {
  RunWithCatalog(2, Reach::kDirect, [](const CatalogPtr& catalog) {
    const int me = MyPe(catalog);
    const uint64_t capacity = catalog->heap()->stats().capacity_bytes;
    if (me == 0) PublishNumbers(catalog, "big", PublishMode::kCreate, 1, capacity * 2 / 3 / 8);
    Barrier(catalog);
    if (me == 1) CHECK_OK(catalog->Drop("big"));  // PE 0 is not told
    Barrier(catalog);
    if (me == 0) {
      CHECK(catalog->heap()->stats().used_bytes > capacity / 2);
      CHECK_OK(catalog->heap()->Allocate(capacity / 2).status());
    }
  });
}

}  // namespace flightshmem
