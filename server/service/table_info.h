// What the table services tell of a table.
#pragma once

#include "embedding/v1/embedding.pb.h"
#include "server/service/snapshot.h"

namespace embedding {

// Fills an empty info: the record's snapshot, and the versions beside it.
void FillTableInfo(const TableRecord& record, v1::TableInfo* info);

}  // namespace embedding
