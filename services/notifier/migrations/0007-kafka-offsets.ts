// To where the topic has been noted. Kafka keeps that, too, but does not go back where this database does, by a standby that was behind or a backup:
// what was lost then would have come never again.
import { Migration } from '@mikro-orm/migrations';

export class KafkaOffsets extends Migration {
  override up(): void {
    this.addSql(`create table kafka_offsets (
      topic text not null,
      partition int not null,
      next_offset bigint not null check (next_offset >= 0),
      primary key (topic, partition)
    )`);
    // Of no tenant.
    this.addSql('alter table kafka_offsets enable row level security');
    this.addSql('alter table kafka_offsets force row level security');
    this.addSql('create policy kafka_offsets on kafka_offsets using (true)');
  }
}
