import { fromBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { ServerReflection } from '../../proto/gen/grpc/reflection/v1/reflection_pb.js';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { startGrpcServer } from '../../test/grpc-server.ts';

test('reflection knows the stream of calls, and the details of refusals, so that grpcurl shows them as text', async () => {
  const server = await startGrpcServer({
    services: [LedgerService],
    tokens: ['right'],
    maxMessageBytes: 10_000,
  });
  try {
    const client = createClient(ServerReflection, createGrpcTransport({ baseUrl: `http://127.0.0.1:${server.port}` }));
    const asked = ['google.rpc.ErrorInfo', 'google.rpc.BadRequest', 'google.rpc.RetryInfo', 'platform.v1.CallService'];
    const requests = asked.map((value) => ({ messageRequest: { case: 'fileContainingSymbol' as const, value } }));
    const all = async function* () {
      for (const request of requests) yield await Promise.resolve(request);
    };
    const found: string[] = [];
    for await (const { messageResponse: answer } of client.serverReflectionInfo(all(), { headers: { authorization: 'Bearer right' } })) {
      const files = answer.case === 'fileDescriptorResponse' ? answer.value.fileDescriptorProto : [];
      found.push(files.map((file) => fromBinary(FileDescriptorProtoSchema, file).name).join(' '));
    }
    const details = 'google/rpc/error_details.proto google/protobuf/duration.proto';
    expect(found).toEqual([details, details, details, 'platform/v1/calls.proto']);
  } finally {
    await server.close();
  }
});
