package txloom;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Writes entries of Delta's logs on S3 so that none replaces another one: the store itself refuses the second of two
 * writers of a version (PUT with If-None-Match).
 *
 * Delta's own store for S3 asks whether the entry is there, and then writes it; S3A knows the condition only for whom
 * asks for it by a builder. Set-up compiles this file with the compiler that Spark ships (docs/adr/0047).
 */
public class ConditionalLogStore extends HadoopFileSystemLogStore {
  private static final String CONDITION = "fs.option.create.conditional.overwrite";

  public ConditionalLogStore(Configuration configuration) {
    super(configuration);
  }

  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
      throws IOException {
    FileSystem system = path.getFileSystem(configuration);
    byte[] entry = bytes(actions);
    FSDataOutputStreamBuilder builder = system.createFile(path).overwrite(overwrite.booleanValue());
    if (!overwrite.booleanValue()) {
      builder.must(CONDITION, true);
    }
    try {
      FSDataOutputStream stream = (FSDataOutputStream) builder.build();
      try {
        stream.write(entry);
      } finally {
        stream.close();
      }
    } catch (IOException refused) {
      if (overwrite.booleanValue() || !system.exists(path)) {
        throw refused;
      }
      // A request whose answer was lost is sent again, and refused because of itself.
      if (!Arrays.equals(entry, content(system, path))) {
        throw new java.nio.file.FileAlreadyExistsException(path.toString());
      }
    }
  }

  public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
    return Boolean.FALSE;
  }

  private static byte[] bytes(Iterator<String> actions) throws IOException {
    ByteArrayOutputStream entry = new ByteArrayOutputStream();
    while (actions.hasNext()) {
      entry.write((((String) actions.next()) + "\n").getBytes(StandardCharsets.UTF_8));
    }
    return entry.toByteArray();
  }

  private static byte[] content(FileSystem system, Path path) throws IOException {
    InputStream stream = system.open(path);
    try {
      return stream.readAllBytes();
    } finally {
      stream.close();
    }
  }
}
