// The RPCs of proofs: checkpoints, inclusion, consistency, tiles and keys of a tenant's log.
import type { GetProofRequest, Proof } from '../../../proto/gen/ledger/v1/audit_pb.js';
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ProofSchema } from '../../../proto/gen/ledger/v1/audit_pb.js';
import { sha256 } from '../../platform/digest.ts';
import type { Connections } from '../../platform/postgres.ts';
import { Refusal } from '../accounting.ts';
import type { AuditHandlers, AuditorParts } from '../auditor/parts.ts';
import type { EventRow } from '../events.ts';
import { eventColumns } from '../events.ts';
import { checkedId, invalid, tenantOf } from '../fields.ts';
import { genesisHash, headerOf } from '../log.ts';
import { checkpointsOfKeys, newestCheckpoint, type Checkpoint, type Checkpoints } from './checkpoints.ts';
import { consistencyProof, inclusionProof } from './merkle.ts';
import { readEntries, readOnly, readTile, storedSubtrees } from './stored-tiles.ts';
import { levelWidth, tileWidth } from './tiles.ts';
