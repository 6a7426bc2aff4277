// SPDX-License-Identifier: Apache-2.0
#include "catalog/catalog.h"

#include <algorithm>

#include "catalog/names.h"

namespace flightshmem {
namespace {

class PinnedBuffer : public arrow::Buffer {
 public:
  PinnedBuffer(const std::byte* at, uint64_t size, std::shared_ptr<VersionPin> pin)
      : arrow::Buffer(reinterpret_cast<const uint8_t*>(at), static_cast<int64_t>(size)),
        pin_(std::move(pin)) {}

 private:
  std::shared_ptr<VersionPin> pin_;
};

std::string Join(const std::vector<std::string>& words, size_t at_most) {
  std::string text;
  for (size_t i = 0; i < std::min(words.size(), at_most); ++i) {
    text += (i > 0 ? ", " : "") + words[i];
  }
  if (words.size() > at_most) text += " and " + std::to_string(words.size() - at_most) + " more";
  return text;
}

}  // namespace

VersionPin::VersionPin(std::shared_ptr<Catalog> catalog, EntryId id)
    : catalog_(std::move(catalog)), id_(id) {}

VersionPin::~VersionPin() { catalog_->Unpin(id_); }

int64_t TableVersion::rows() const {
  int64_t rows = 0;
  for (const ShardRef& shard : shards()) rows += shard.rows;
  return rows;
}

uint64_t TableVersion::size_bytes() const {
  uint64_t bytes = 0;
  for (const ShardRef& shard : shards()) bytes += shard.size_bytes;
  return bytes;
}

Catalog::Catalog(std::shared_ptr<SymmetricHeap> heap)
    : heap_(std::move(heap)), directory_(heap_->transport()) {}

arrow::Result<std::shared_ptr<Catalog>> Catalog::Make(std::shared_ptr<SymmetricHeap> heap) {
  std::shared_ptr<Catalog> catalog(new Catalog(std::move(heap)));
  catalog->directory_.ClearMine();
  ARROW_RETURN_NOT_OK(catalog->heap_->transport()->Barrier());
  // The heap must not keep the catalog alive, which keeps the heap alive.
  std::weak_ptr<Catalog> weak = catalog;
  catalog->heap_->AddTenant({[weak] {
                               if (const auto self = weak.lock()) self->Reclaim();
                             },
                             [weak] {
                               const auto self = weak.lock();
                               return self ? self->LargestTables() : std::string();
                             }});
  return catalog;
}

Directory::IsNamed Catalog::IsNamed(const std::string& name) const {
  return [this, &name](const EntryFields& fields) -> arrow::Result<bool> {
    ARROW_ASSIGN_OR_RAISE(const std::string found, ReadName(directory_.words(), fields));
    return found == name;
  };
}

arrow::Result<std::shared_ptr<arrow::Buffer>> Catalog::View(GlobalPtr where, uint64_t size,
                                                            std::shared_ptr<VersionPin> pin) const {
  if (const std::byte* here = directory_.words().pointer(where)) {
    return std::make_shared<PinnedBuffer>(here, size, std::move(pin));
  }
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> copy,
                        arrow::AllocateBuffer(static_cast<int64_t>(size)));
  ARROW_RETURN_NOT_OK(directory_.words().Read(copy->mutable_data(), where, size));
  return copy;
}

arrow::Result<Catalog::VersionPtr> Catalog::Open(const Directory::Pinned& pinned) {
  auto version = std::make_shared<TableVersion>();
  version->id_ = pinned.id;
  version->version_ = pinned.fields.version;
  version->pin_ = std::make_shared<VersionPin>(shared_from_this(), pinned.id);
  ARROW_ASSIGN_OR_RAISE(const auto bytes, View(pinned.fields.descriptor,
                                               pinned.fields.descriptor_bytes, version->pin_));
  ARROW_ASSIGN_OR_RAISE(version->descriptor_, ReadDescriptor(bytes));
  return version;
}

arrow::Result<Catalog::VersionPtr> Catalog::Find(const std::string& name) {
  UnpinDeferred();
  ARROW_ASSIGN_OR_RAISE(const auto pinned,
                        directory_.PinCurrent(Directory::Hash(name), IsNamed(name)));
  if (!pinned) return VersionPtr();
  return Open(*pinned);
}

arrow::Result<std::shared_ptr<const TableVersion>> Catalog::Lookup(const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(auto version, Find(name));
  if (version == nullptr) return NotFound("lookup", name);
  return version;
}

arrow::Status Catalog::NotFound(const std::string& operation, const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(const auto names, Names());
  return arrow::Status::KeyError(
      "[", operation, "] no table of that name, got ", Quoted(name), ", PE ",
      heap_->transport()->my_pe(), "/", heap_->transport()->n_pes(),
      names.empty() ? ": nothing is published" : ": published: ", Join(names, 20));
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> Catalog::Read(const VersionPtr& version,
                                                                 size_t shard) {
  if (shard >= version->shards().size()) {
    return arrow::Status::IndexError("[read] table '", version->name(), "' has ",
                                     version->shards().size(), " shards, got number ", shard);
  }
  const ShardRef& ref = version->shards()[shard];
  ARROW_ASSIGN_OR_RAISE(const auto message, View(ref.where, ref.size_bytes, version->pin_));
  return ReadShard(*version->header(), message);
}

arrow::Result<std::vector<std::string>> Catalog::Names() {
  UnpinDeferred();
  std::vector<std::string> names;
  for (int pe = 0; pe < heap_->transport()->n_pes(); ++pe) {
    ARROW_RETURN_NOT_OK(directory_.VisitCurrent(pe, [&](const EntryFields& fields) {
      ARROW_ASSIGN_OR_RAISE(std::string name, ReadName(directory_.words(), fields));
      names.push_back(std::move(name));
      return arrow::Status::OK();
    }));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// For the text of a full heap; what cannot be read from here is left out.
std::string Catalog::LargestTables() {
  const auto names = Names();
  if (!names.ok()) return {};
  std::vector<std::pair<uint64_t, std::string>> tables;
  for (const std::string& name : *names) {
    const auto version = Find(name);
    if (version.ok() && *version != nullptr) tables.emplace_back((*version)->size_bytes(), name);
  }
  std::sort(tables.rbegin(), tables.rend());
  std::vector<std::string> texts;
  for (const auto& [bytes, name] : tables) texts.push_back(name + " " + HumanBytes(bytes));
  return texts.empty() ? std::string() : "largest tables on all PEs: " + Join(texts, 3);
}

arrow::Status Catalog::CheckPublish(const std::string& name,
                                    const std::vector<ShardRef>& shards) const {
  const Transport& transport = *heap_->transport();
  ARROW_RETURN_NOT_OK(CheckTableName("publish", name));
  for (const ShardRef& shard : shards) {
    const uint64_t segment = transport.segment_size();
    if (shard.where.pe < 0 || shard.where.pe >= transport.n_pes() || shard.where.offset > segment ||
        shard.size_bytes > segment - shard.where.offset) {
      return arrow::Status::IndexError("[publish] a shard lies outside the segments, got PE ",
                                       shard.where.pe, " offset ", shard.where.offset);
    }
  }
  return arrow::Status::OK();
}

// A version in the making.
struct Catalog::Draft {
  PublishMode mode;
  Descriptor descriptor;
  GlobalPtr where;
  uint64_t size_bytes = 0;
  std::optional<EntryId> base;         // append: the version it was made from
  std::optional<EntryId> predecessor;  // append: whose shards it goes on using
  std::shared_ptr<arrow::Buffer> consolidated;
  bool is_stale = false;  // `base` was no longer current when the draft was to become it
};

arrow::Result<Shard> Catalog::Consolidate(const VersionPtr& version) {
  arrow::RecordBatchVector batches;
  for (size_t i = 0; i < version->shards().size(); ++i) {
    ARROW_ASSIGN_OR_RAISE(auto batch, Read(version, i));
    batches.push_back(std::move(batch));
  }
  ARROW_ASSIGN_OR_RAISE(const auto whole, arrow::ConcatenateRecordBatches(batches));
  return WriteShard(*heap_, *whole);
}

// Puts the shards of `base` in front of the draft's.
arrow::Status Catalog::TakeOver(const VersionPtr& base, Draft* draft) {
  const arrow::Status same = base->header()->CheckEquals(*draft->descriptor.header);
  if (!same.ok()) {
    return same.WithMessage("[publish] what is appended must be as table ",
                            Quoted(draft->descriptor.name), " is: ", same.message());
  }
  std::vector<ShardRef> before = base->shards();
  draft->base = draft->predecessor = base->id();
  if (before.size() >= kMaxShards) {
    // Not being able to (no room, text beyond 2 GiB) is no reason to refuse the append.
    if (auto shard = Consolidate(base); shard.ok()) {
      before = {{shard->where, static_cast<uint64_t>(shard->message->size()), shard->rows}};
      draft->consolidated = std::move(shard->message);
      draft->predecessor.reset();
    }
  }
  auto& shards = draft->descriptor.shards;
  shards.insert(shards.begin(), before.begin(), before.end());
  return arrow::Status::OK();
}

arrow::Result<std::optional<EntryFields>> Catalog::Next(const EntryId* current_id,
                                                        const EntryFields* current,
                                                        Draft* draft) const {
  if (draft->mode == PublishMode::kCreate && current != nullptr) {
    return arrow::Status::AlreadyExists("[publish] table '", draft->descriptor.name,
                                        "' is published already, PE ", heap_->transport()->my_pe(),
                                        "/", heap_->transport()->n_pes(),
                                        ": use mode 'replace' or 'append', or drop it first");
  }
  const bool is_stale =
      draft->mode == PublishMode::kAppend &&
      (current_id == nullptr ? draft->base.has_value() : draft->base != std::optional(*current_id));
  if (is_stale) {
    draft->is_stale = true;
    return arrow::Status::Cancelled("[publish] '", draft->descriptor.name, "' has changed");
  }
  return EntryFields{current == nullptr ? 1 : current->version + 1, draft->where, draft->size_bytes,
                     draft->predecessor};
}

arrow::Result<EntryId> Catalog::Publish(const std::string& name, PublishMode mode,
                                        const TableHeader& header,
                                        const std::vector<ShardRef>& shards,
                                        const std::string& partitioning) {
  ARROW_RETURN_NOT_OK(CheckPublish(name, shards));
  Reclaim();
  while (true) {
    Draft draft;
    draft.mode = mode;
    draft.descriptor = {name, partitioning, shards, std::make_shared<TableHeader>(header)};
    if (mode == PublishMode::kAppend) {
      ARROW_ASSIGN_OR_RAISE(const VersionPtr base, Find(name));
      if (base != nullptr) ARROW_RETURN_NOT_OK(TakeOver(base, &draft));
    }
    ARROW_ASSIGN_OR_RAISE(Block block, WriteDescriptor(*heap_, draft.descriptor));
    draft.where = block.where();
    draft.size_bytes = block.size();
    const auto applied = directory_.Apply(
        {Directory::Hash(name), IsNamed(name),
         [&](const EntryId* id, const EntryFields* fields) { return Next(id, fields, &draft); }});
    // Somebody published in between: the draft is made anew on top of that.
    if (draft.is_stale) continue;
    ARROW_RETURN_NOT_OK(applied.status());
    Own(**applied, SymmetricHeap::ToBuffer(std::move(block), draft.size_bytes));
    if (draft.consolidated != nullptr) Own(**applied, std::move(draft.consolidated));
    Reclaim();
    return **applied;
  }
}

arrow::Status Catalog::Drop(const std::string& name) {
  UnpinDeferred();
  bool found = false;
  const auto applied =
      directory_.Apply({Directory::Hash(name), IsNamed(name),
                        [&found](const EntryId* id,
                                 const EntryFields*) -> arrow::Result<std::optional<EntryFields>> {
                          found = id != nullptr;
                          return std::nullopt;
                        }});
  ARROW_RETURN_NOT_OK(applied.status());
  Reclaim();
  return found ? arrow::Status::OK() : NotFound("drop", name);
}

void Catalog::Own(EntryId id, std::shared_ptr<arrow::Buffer> block) {
  std::lock_guard lock(mutex_);
  owned_.push_back({id, std::move(block)});
}

void Catalog::Reclaim() {
  if (heap_->closed()) return;
  UnpinDeferred();
  std::vector<Owned> gone;  // released after the lock: a block may be a view that unpins
  std::lock_guard lock(mutex_);
  const auto is_kept = [this](const Owned& owned) {
    const auto is_gone = directory_.IsGone(owned.id);
    return !is_gone.ok() || !*is_gone;  // a version this thread cannot ask about stays
  };
  const auto first_gone = std::stable_partition(owned_.begin(), owned_.end(), is_kept);
  std::move(first_gone, owned_.end(), std::back_inserter(gone));
  owned_.erase(first_gone, owned_.end());
}

// From a destructor, in any thread. The memory may be unmapped once the runtime has ended.
void Catalog::Unpin(EntryId id) {
  if (heap_->closed() || !made_in_.is_here()) return;
  if (directory_.Unpin(id).IsNotImplemented()) {
    std::lock_guard lock(mutex_);
    deferred_unpins_.push_back(id);
  }
}

void Catalog::UnpinDeferred() {
  if (!directory_.words().on_main_thread()) return;
  std::vector<EntryId> deferred;
  {
    std::lock_guard lock(mutex_);
    deferred.swap(deferred_unpins_);
  }
  for (const EntryId id : deferred) Unpin(id);
}

}  // namespace flightshmem
