/* Publishes to a durable quorum queue, persistent, mandatory and confirmed, with at most WINDOW confirms outstanding.
 *
 *     publish PORT QUEUE MESSAGES WINDOW SIZE RATE
 *
 * RATE 0: as fast as the window allows. Otherwise message n is due at n / RATE, and its latency counts from then.
 * Prints one JSON object: seconds, us (processor time a message), latencies_us. */

#include "link.h"

static double *due;
static char *is_confirmed;
static uint64_t confirmed, lowest = 1;

static void confirm(uint64_t tag, double at) {
    if (is_confirmed[tag]) return;
    is_confirmed[tag] = 1;
    due[tag] = at - due[tag];
    confirmed++;
}

/* Waits for one frame, for ever or until `deadline`, and takes what it confirms. */
static void take_frame(amqp_connection_state_t link, double deadline) {
    amqp_frame_t frame;
    double left = deadline - now(); /* looked at once: the clock goes on, and there is no negative wait */
    if (left < 0) left = 0;
    struct timeval wait = {(long)left, (long)((left - (long)left) * 1e6)};
    int status = amqp_simple_wait_frame_noblock(link, &frame, deadline > 0 ? &wait : NULL);
    if (status == AMQP_STATUS_TIMEOUT) return;
    must(status, "confirm");
    if (frame.frame_type != AMQP_FRAME_METHOD || frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
        end_with("confirm", "the broker sent something else");
    amqp_basic_ack_t *ack = frame.payload.method.decoded;
    double at = now();
    if (!ack->multiple) {
        confirm(ack->delivery_tag, at);
        return;
    }
    for (; lowest <= ack->delivery_tag; lowest++) confirm(lowest, at);
}

int main(int argc, char **argv) {
    if (argc != 7) end_with("usage", "publish PORT QUEUE MESSAGES WINDOW SIZE RATE");
    const char *queue = argv[2];
    uint64_t messages = strtoull(argv[3], NULL, 10), window = strtoull(argv[4], NULL, 10), sent = 0;
    size_t size = strtoull(argv[5], NULL, 10);
    double rate = strtod(argv[6], NULL);
    due = calloc(messages + 1, sizeof *due);
    is_confirmed = calloc(messages + 1, 1);
    char *text = malloc(size);
    if (due == NULL || is_confirmed == NULL || text == NULL) end_with("memory", "there is not enough");
    memset(text, 'x', size);

    amqp_connection_state_t link = open_link(atoi(argv[1]));
    amqp_table_entry_t type = {.key = amqp_cstring_bytes("x-queue-type"),
                               .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes("quorum")}};
    amqp_table_t arguments = {.num_entries = 1, .entries = &type};
    amqp_queue_declare(link, CHANNEL, amqp_cstring_bytes(queue), 0, 1, 0, 0, arguments);
    must_reply(link, "declare");
    amqp_confirm_select(link, CHANNEL);
    must_reply(link, "confirm.select");

    amqp_bytes_t body = {.len = size, .bytes = text};
    char id[24];
    amqp_basic_properties_t properties = {
        ._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG,
        .content_type = amqp_cstring_bytes("text/plain"),
        .delivery_mode = AMQP_DELIVERY_PERSISTENT};
    double begun = now(), cpu = cpu_seconds();
    while (confirmed < messages) {
        while (sent < messages && sent - confirmed < window && (rate <= 0 || now() >= begun + sent / rate)) {
            sent++;
            due[sent] = rate > 0 ? begun + (sent - 1) / rate : now();
            snprintf(id, sizeof id, "%020llu", (unsigned long long)sent);
            properties.message_id = amqp_cstring_bytes(id);
            must(amqp_basic_publish(link, CHANNEL, amqp_empty_bytes, amqp_cstring_bytes(queue), 1, 0, &properties, body),
                 "publish");
        }
        int is_early = rate > 0 && sent < messages && sent - confirmed < window;
        take_frame(link, is_early ? begun + sent / rate : 0);
        while (amqp_frames_enqueued(link) || amqp_data_in_buffer(link)) take_frame(link, now());
        amqp_maybe_release_buffers(link);
    }
    double seconds = now() - begun;
    printf("{\"seconds\": %.6f, \"us\": %.3f, \"latencies_us\": [", seconds, (cpu_seconds() - cpu) / messages * 1e6);
    for (uint64_t tag = 1; tag <= messages; tag++) printf("%s%.0f", tag > 1 ? ", " : "", due[tag] * 1e6);
    printf("]}\n");
    amqp_connection_close(link, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(link);
    return 0;
}
