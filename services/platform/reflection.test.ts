import { join } from 'node:path';
import { fromBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { Metadata, credentials, loadPackageDefinition, type ClientDuplexStream } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { root } from '../../deploy/local/plan.ts';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { startGrpcServer } from '../../test/grpc-server.ts';

type Message = Record<string, any>;

test.each(['v1', 'v1alpha'])('a client of another make finds services, methods and error details by reflection %s', async (version) => {
  const loaded = loadSync(`grpc/reflection/${version}/reflection.proto`, { includeDirs: [join(root, 'proto')], oneofs: true });
  const packages: Message = loadPackageDefinition(loaded);
  const { ServerReflection } = packages['grpc'].reflection[version];
  const server = await startGrpcServer({ services: [LedgerService] });
  const client = new ServerReflection(`127.0.0.1:${server.port}`, credentials.createInsecure());
  const metadata = new Metadata();
  metadata.set('authorization', 'Bearer token');
  try {
    const stream = client.serverReflectionInfo(metadata) as ClientDuplexStream<Message, Message>;
    const symbols = ['ledger.v1.LedgerService', 'ledger.v1.LedgerService.GetBalance', 'google.rpc.ErrorInfo', 'nobody.v1.Nothing'];
    stream.write({ listServices: '*' });
    for (const fileContainingSymbol of symbols) stream.write({ fileContainingSymbol });
    stream.end();
    const found: unknown[] = [];
    for await (const answer of stream as AsyncIterable<Message>) {
      const { messageResponse, listServicesResponse, fileDescriptorResponse, errorResponse } = answer;
      if (messageResponse === 'listServicesResponse') found.push(listServicesResponse.service.map(({ name }: Message) => name));
      else if (messageResponse === 'errorResponse') found.push(errorResponse.errorCode);
      else found.push(fromBinary(FileDescriptorProtoSchema, fileDescriptorResponse.fileDescriptorProto[0]).name);
    }
    const standard = ['grpc.health.v1.Health', 'grpc.reflection.v1.ServerReflection', 'grpc.reflection.v1alpha.ServerReflection'];
    const [ledger, details] = ['ledger/v1/ledger.proto', 'google/rpc/error_details.proto'];
    expect(found).toEqual([['ledger.v1.LedgerService', ...standard], ledger, ledger, details, 5]);
  } finally {
    client.close();
    await server.close();
  }
});
