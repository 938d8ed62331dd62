import org.junit.internal.TextListener;
import org.junit.internal.RealSystem;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** JUnitCore, but with one line for each test: `VERDICT Class.method`. */
public final class Names extends RunListener {
    private boolean good;

    @Override
    public void testStarted(Description test) {
        good = true;
    }

    @Override
    public void testFailure(Failure failure) {
        good = false;
        tell("FAILED", failure.getDescription());
    }

    @Override
    public void testAssumptionFailure(Failure failure) {
        good = false;
        tell("SKIPPED", failure.getDescription());
    }

    @Override
    public void testIgnored(Description test) {
        tell("SKIPPED", test);
    }

    @Override
    public void testFinished(Description test) {
        if (good) {
            tell("PASSED", test);
        }
    }

    private static void tell(String verdict, Description test) {
        String name = test.getTestClass() == null ? test.getClassName() : test.getTestClass().getSimpleName();
        System.out.println("\n" + verdict + " " + name + "." + test.getMethodName().replace(" ", "_"));
    }

    public static void main(String[] names) throws ClassNotFoundException {
        JUnitCore core = new JUnitCore();
        core.addListener(new TextListener(new RealSystem()));
        core.addListener(new Names());
        boolean good = true;
        for (String name : names) {
            good &= core.run(Class.forName(name)).wasSuccessful();
        }
        System.exit(good ? 0 : 1);
    }
}
